"""Products of Dask arrays."""
