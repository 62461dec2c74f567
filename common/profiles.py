"""Limits of real GPUs, for --limits: no OpenCL, data only.

Each has some of: max_work_group_size, max_work_item_sizes, local_mem_size (bytes), local_mem_type,
and the extensions that some driver offers there, of those that a sample asks for.

The figures are those of Arm's drivers, from public outputs of clinfo: of a Mali-T628 (r12p0) and a
T860 for Midgard, of a G71 (r9p0) and a G52 (OpenCL 2.0) for Bifrost, of a G610 (r32p1) for Valhall.
No work-group limit was found for Valhall: the device's holds. cl_khr_integer_dot_product is Mesa's.
"""

_BASE = {
    "cl_khr_byte_addressable_store",
    "cl_khr_fp16",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_arm_core_id",
    "cl_arm_import_memory",
}
_MALI = {"local_mem_size": 32 * 1024, "local_mem_type": "global"}
_MIDGARD = {
    **_MALI, "max_work_group_size": 256, "max_work_item_sizes": (256, 256, 256),
    "extensions": _BASE | {"cl_khr_fp64"},
}
_BIFROST = {
    **_MALI, "max_work_group_size": 384, "max_work_item_sizes": (384, 384, 384),
    "extensions": _BASE | {"cl_khr_subgroups", "cl_khr_integer_dot_product"},
}
_VALHALL = {
    **_MALI,
    "extensions": _BIFROST["extensions"] | {
        "cl_khr_subgroup_ballot",
        "cl_khr_subgroup_extended_types",
        "cl_khr_subgroup_non_uniform_vote",
        "cl_arm_integer_dot_product_int8",
        "cl_arm_integer_dot_product_accumulate_int8",
        "cl_arm_integer_dot_product_accumulate_saturate_int8",
    },
}
PROFILES = {
    **dict.fromkeys(("mali-t628", "mali-t760", "mali-t860"), _MIDGARD),
    **dict.fromkeys(("mali-g31", "mali-g52", "mali-g72"), _BIFROST),
    **dict.fromkeys(("mali-g57", "mali-g310", "mali-g610"), _VALHALL),
    # The least that OpenCL 1.1 asks of an embedded profile (section 10).
    "embedded": {
        "max_work_group_size": 1,
        "max_work_item_sizes": (1, 1, 1),
        "local_mem_size": 1024,
        "extensions": {"cl_khr_byte_addressable_store"},
    },
}
