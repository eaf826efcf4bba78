"""What a call carries to its backend: nothing, a secret, the client's own token, or one that was fetched for it."""
