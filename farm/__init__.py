"""The build farm: from matrix.yaml to checked and indexed wheels. Reads csrc and mamba_ssm as files; never imports torch."""
