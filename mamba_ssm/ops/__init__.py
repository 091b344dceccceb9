"""The ops: each takes the kernels or the reference, as mamba_ssm.backend decides per call."""
