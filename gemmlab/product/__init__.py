"""One large product, from file to file."""
