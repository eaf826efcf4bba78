"""Who may reach the gateway. Its own package: it never imports `portico`."""
