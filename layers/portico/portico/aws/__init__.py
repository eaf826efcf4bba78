"""What only AWS needs. Nothing here is imported elsewhere."""
