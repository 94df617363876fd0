"""Names under which libraries look for functions of torch.distributed."""
