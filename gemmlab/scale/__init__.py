"""One product on several devices, or on a CPU and a device together."""
