"""Health event codes of chips by what has to be done, as Huawei's device plugin sorts them.

Source: Ascend/mind-cluster component/ascend-device-plugin/build/faultCode.json (commit 22bb3d98); the same classes
stand in the sources of ``rules/codes/hardware.yaml``, which says what each code means.
"""

CLASSES = {
    "SeparateNPU": "80E18402 80E0020B 80818C00 80818C05 80E3A201",
    "RestartNPU": "80E18008 80E18000 80CD8008 80CF8008 80CF8009 80B98000 80B98008 80E21008 80E2120D 8C1FA006 8C03A000"
    " 40F84E00",
    "FreeRestartNPU": "8C17A005 8C19A005 8C1DA005 8C084E00 8C0A4E00 8C0E4E00 8C104E00",
    "RestartRequest": "80C98000 80C98002 80C98003 80C98008 80C98009 80C9800A 80CB8002 80CB8008 80CB8009 8107800D"
    " 80BB8000 80BB8008 80BB8009 80BB800A",
    "RestartBusiness": "80E01801 8C204E00 A8028802 B4060006 B4060011",
    "SubHealthFault": "80818C06 81078605 81AD8605 80E20207 8C2FA001",
    "NotHandleFault": "80E01809 80E18401 80E00209 81078603 A4025021",
}
"""Worst first: replace it, reset it now, reset it when idle, restart the job (two), slower or at risk, no effect."""

SEVERITY = {
    "SeparateNPU": "error", "RestartNPU": "error", "FreeRestartNPU": "error", "RestartRequest": "warning",
    "RestartBusiness": "warning", "SubHealthFault": "warning", "NotHandleFault": "advice", "": "warning",
}  # fmt: skip

CLASS_OF = {code: name for name, codes in CLASSES.items() for code in codes.split()}
