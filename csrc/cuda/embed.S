// One fatbin per unit, in the section where cuobjdump and its kin look for device code. The build passes the paths:
// -DMAMBA_FATBIN_SELECTIVE_SCAN='"..."' -DMAMBA_FATBIN_CAUSAL_CONV1D='"..."'. A fatbin lies on an 8-byte boundary and
// says its own length.
  .section .nv_fatbin, "a", %progbits

  .balign 8
  .globl mamba_fatbin_selective_scan
  .hidden mamba_fatbin_selective_scan
mamba_fatbin_selective_scan:
  .incbin MAMBA_FATBIN_SELECTIVE_SCAN
  .balign 8

  .globl mamba_fatbin_causal_conv1d
  .hidden mamba_fatbin_causal_conv1d
mamba_fatbin_causal_conv1d:
  .incbin MAMBA_FATBIN_CAUSAL_CONV1D
  .balign 8

  .section .note.GNU-stack, "", %progbits
