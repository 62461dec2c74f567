"""tools/inspect: what it counts in the texts of compilers, small ones written by hand."""

import re

import pytest

from tools import inspect, listings

PTX = """
.version 8.7
.target sm_90
.entry probe(.param .u64 probe_param_0)
{
	shfl.sync.idx.b32 	%r1, %r2, %r3, 31, -1;
	ret;
}
	// .globl	gemm
.entry gemm(
	.param .u32 gemm_param_0
)
{
	.reg .f32 	%f<9>;
	ld.param.u32 	%r1, [gemm_param_0];
	@%p1 bra 	$L__BB0_2;
$L__BB0_1:
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	ld.global.f32 	%f5, [%rd2];
	cp.async.cg.shared.global [%r4], [%rd3], 16;
	st.shared.v4.f32 	[%r5], {%f1, %f2, %f3, %f4}; st.shared.f32 [%r6], %f5;
	bar.sync 	0;
	ld.shared.f32 	%f6, [%r5+4]; // fma.rn.f32 in a comment
	fma.rn.f32 	%f7, %f6, %f5, %f7;
	@%p2 fma.rn.ftz.f64 	%fd1, %fd2, %fd3, %fd1;
	mad.lo.s32 	%r7, %r1, %r2, %r3;
	mad.wide.u32 	%rd4, %r1, 4, %rd1;
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};
	{ shfl.sync.bfly.b32 %r8, %r9, 1, 31, -1; }
	st.local.f32 	[%rd5], %f7;
$L__BB0_2:
	st.global.v2.f32 	[%rd6], {%f7, %f7};
	ret;
}
"""
SASS = """
	.section	.text.probe,"ax",@progbits
        /*0000*/                   SHFL.IDX PT, R0, R1, R2, 0x1f ;
	.section	.text.gemm,"ax",@progbits
.text.gemm:
        /*0000*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R9], [R4.64] ;
        /*0020*/                   STS.128 [R8], R4 ;
        /*0030*/                   BAR.SYNC 0x0 ;
        /*0040*/                   LDS.U.128 R12, [R8] ;
        /*0050*/               @P1 FFMA R0, R1, R2, R0 ;
        /*0060*/                   IMAD.WIDE R2, R3, R4, R2 ;
        /*0070*/                   STL [R1], R0 ;
        /*0080*/                   STG.E.64 [R2.64], R4 ;
        /*0090*/                   HMMA.1688.F32.TF32 R4, R8, R10, R4 ;
	.section	.nv.shared.gemm,"aw",@nobits
"""
IR = """
@gemm.tile = internal global [16 x [16 x float]] undef, align 4
define spir_kernel void @probe(ptr %A) {
  %1 = load float, ptr %A, align 4
}
define dso_local spir_kernel void @gemm(i32 noundef %K, ptr noundef readonly %A, ptr noundef %C) {
entry:
  %own = alloca [8 x float], align 4
  %0 = getelementptr inbounds float, ptr %A, i64 4
  br label %loop
loop:
  %at = phi ptr [ %0, %entry ], [ %next, %loop ]
  %next = getelementptr float, ptr %at, i64 1
  %1 = load <4 x float>, ptr %at, align 16, !tbaa !1
  %2 = getelementptr [16 x [16 x float]], ptr @gemm.tile, i64 0, i64 %i
  store <4 x float> %1, ptr %2, align 16
  tail call void @_Z7barrierj(i32 noundef 1)
  %3 = load float, ptr @gemm.tile, align 4
  %4 = tail call float @llvm.fmuladd.f32(float %3, float %3, float %3)
  %5 = load float, ptr %own, align 4
  %6 = call float @_Z17sub_group_shufflefj(float %5, i32 3)
  store float %4, ptr %C, align 4
  %7 = load i64, ptr @_local_id_x, align 8
  ret void
}
"""
CALLING_IR = """
@gemm.tile = internal global [16 x float] undef, align 4
define dso_local void @step(i32 noundef %n, ptr noundef readonly %from, ptr noundef %to) #0 {
  %1 = load <2 x float>, ptr %from, align 4
  %2 = call <2 x float> @_Z7_cl_fmaDv2_fS_S_(<2 x float> %1, <2 x float> <float 1.0, float 2.0>, <2 x float> %1)
  store <2 x float> %2, ptr %to, align 4
  call void @step(i32 %n, ptr %from, ptr %to)
  ret void
}
define <2 x float> @_Z7_cl_fmaDv2_fS_S_(<2 x float> %0, <2 x float> %1, <2 x float> %2) #1 {
  %4 = call <2 x float> @llvm.fma.v2f32(<2 x float> %0, <2 x float> %1, <2 x float> %2)
  ret <2 x float> %4
}
define dso_local spir_kernel void @gemm(i32 noundef %K, ptr %A, ptr %C) #2 {
  %1 = getelementptr float, ptr %A, i64 8
  call void @step(i32 noundef 3, ptr noundef nonnull %1, ptr noundef @gemm.tile)
  call void @step(i32 noundef 3, ptr noundef @gemm.tile, ptr noundef %C)
  ret void
}
"""  # noqa: E501
TYPED_IR = """
@gemm.tile = internal addrspace(3) global [16 x float] undef, align 4
define void @gemm(float addrspace(1)* %A, float addrspace(1)* %C) {
  %1 = getelementptr inbounds float, float addrspace(1)* %A, i64 4
  %2 = load float, float addrspace(1)* %1, align 4
  store float %2, float addrspace(3)* getelementptr inbounds ([16 x float], [16 x float] addrspace(3)* @gemm.tile, i64 0, i64 3), align 4
}
"""  # noqa: E501
X86 = """
a.so:     file format elf64-x86-64

0000000000001000 <_pocl_kernel_other>:
    1000:\tvfmadd231ps (%rdi),%zmm1,%zmm2

0000000000002000 <_pocl_kernel_gemm>:
    2000:\tpush   %rbp
    2001:\tmov    0x10(%rsp),%rax
    2004:\tvmovaps (%rdi,%rax,4),%zmm1
    2008:\tvfmadd231ps (%rdi,%rax,4){1to16},%zmm1,%zmm2
    2010:\tvfmadd213ps %zmm3,%zmm1,%zmm2
    2018:\tvmovaps %zmm2,0x40(%rsp)
    2020:\tvmovups %zmm2,(%rsi,%rax,4)
    2028:\tlea    0x8(%rsi),%rsi
    2030:\tcmpl   $0x1,(%rdx)
    2038:\tnopw   0x0(%rax,%rax,1)
    2040:\tret

"""
AARCH64 = """
a.so:     file format elf64-littleaarch64

0000000000000100 <_pocl_kernel_gemm_workgroup>:
 100:\tldr\tq0, [x1, #16]
 104:\tldp\tq1, q2, [x2], #32
 108:\tfmla\tv3.4s, v0.4s, v1.s[0]
 10c:\tfmadd\ts0, s1, s2, s3
 110:\tstr\tq3, [sp, #32]
 114:\tst1\t{v3.4s}, [x3]
 118:\tret

"""


def test_ptx_is_counted():
    assert listings.ptx(PTX, "gemm") == {
        "global loads": 3, "local stores": 3, "barriers": 1, "local loads": 1, "fma": 2,
        "matrix": 1, "shuffles": 1, "stack": 1, "global stores": 1,
    }
    assert listings.ptx(PTX, "probe") == {"shuffles": 1}


def test_sass_is_counted():
    assert listings.sass(SASS, "gemm") == {
        "global loads": 2, "local stores": 2, "barriers": 1, "local loads": 1, "fma": 1,
        "matrix": 1, "stack": 1, "global stores": 1,
    }


def test_llvm_ir_is_counted_and_addresses_are_followed():
    assert listings.llvm_ir(IR, "gemm") == {
        "global loads": 1, "local stores": 1, "barriers": 1, "local loads": 1, "fma": 1,
        "stack": 1, "shuffles": 1, "global stores": 1,
    }
    assert listings.llvm_ir(TYPED_IR, "gemm") == {"global loads": 1, "local stores": 1}
    assert listings.llvm_ir(IR, "another") == {}


def test_functions_that_are_called_count_with_what_they_are_given():
    assert listings.llvm_ir(CALLING_IR, "gemm") == {
        "fma": 2, "global loads": 1, "local stores": 1, "local loads": 1, "global stores": 1
    }


def test_assembly_is_counted():
    names = ("_pocl_kernel_gemm_workgroup", "_pocl_kernel_gemm")
    assert listings.assembly(X86, names) == {
        "fma": 2, "loads": 3, "stores": 1, "stack": 2
    }
    assert listings.assembly(AARCH64, names) == {
        "fma": 2, "loads": 2, "stores": 1, "stack": 1
    }
    of_llvm = re.sub(r"(?m)^( *[0-9a-f]+:)", r"\1      ", AARCH64)
    assert listings.assembly(of_llvm, names) == listings.assembly(AARCH64, names)
    assert listings.assembly("", names) == {}


@pytest.mark.parametrize(
    "call", ["call   10 <multiply>", "callq  8 <multiply@plt>", "bl\t10 <multiply>"])
def test_functions_that_are_called_count_in_assembly(call):
    code = "vfmadd231ps %zmm1,%zmm2,%zmm3" if "bl" not in call else "fmla v3.4s, v0.4s, v1.s[0]"
    text = ("x86-64\n" if "bl" not in call else "") + (
        f"0010 <multiply>:\n  10:\t{code}\n  14:\t{call}\n\n"
        f"0020 <gemm>:\n  20:\t{code}\n  24:\t{call}\n  28:\tcall 8 <memset@plt>\n")
    assert listings.assembly(text, ["gemm"]) == {"fma": 2}
    assert listings.assembly(text, ["multiply"]) == {"fma": 1}  # it calls itself


def test_a_count_is_shown_only_where_the_text_tells():
    counts = listings.assembly(X86, ["_pocl_kernel_gemm"])
    assert listings.shown("assembly", counts, "fma") == "2"
    assert listings.shown("assembly", counts, "local loads") == "-"
    assert listings.shown("PTX", listings.ptx(PTX, "gemm"), "loads") == "-"


NV_LOG = """
ptxas info    : Compiling entry function 'probe' for 'sm_90'
ptxas info    : Function properties for probe
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas info    : Function properties for gemm
ptxas         .     24 bytes stack frame, 20 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 33024 bytes smem, 408 bytes cmem[0]
"""


def test_nvidias_log_is_read():
    assert inspect.nvidia_log(NV_LOG, "gemm") == {"registers": 168, "spills": 48}
    assert inspect.nvidia_log(NV_LOG, "probe") == {"registers": 12, "spills": 0}
    assert inspect.nvidia_log("", "gemm") == {"registers": None, "spills": None}
