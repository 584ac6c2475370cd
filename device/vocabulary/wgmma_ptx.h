// wgmma.mma_async for every N: the operand lists that PTX wants spelled out, built up by the preprocessor four
// registers at a time. Only the shapes a kernel instantiates reach the assembler.
#pragma once

namespace foretile::detail {

// R<i>: names of the accumulators 0 .. 4i-1 in the text; O<i>: the same as operands.
#define FORETILE_R1 "%0, %1, %2, %3"
#define FORETILE_R2 FORETILE_R1 ", %4, %5, %6, %7"
#define FORETILE_R3 FORETILE_R2 ", %8, %9, %10, %11"
#define FORETILE_R4 FORETILE_R3 ", %12, %13, %14, %15"
#define FORETILE_R5 FORETILE_R4 ", %16, %17, %18, %19"
#define FORETILE_R6 FORETILE_R5 ", %20, %21, %22, %23"
#define FORETILE_R7 FORETILE_R6 ", %24, %25, %26, %27"
#define FORETILE_R8 FORETILE_R7 ", %28, %29, %30, %31"
#define FORETILE_R9 FORETILE_R8 ", %32, %33, %34, %35"
#define FORETILE_R10 FORETILE_R9 ", %36, %37, %38, %39"
#define FORETILE_R11 FORETILE_R10 ", %40, %41, %42, %43"
#define FORETILE_R12 FORETILE_R11 ", %44, %45, %46, %47"
#define FORETILE_R13 FORETILE_R12 ", %48, %49, %50, %51"
#define FORETILE_R14 FORETILE_R13 ", %52, %53, %54, %55"
#define FORETILE_R15 FORETILE_R14 ", %56, %57, %58, %59"
#define FORETILE_R16 FORETILE_R15 ", %60, %61, %62, %63"
#define FORETILE_R17 FORETILE_R16 ", %64, %65, %66, %67"
#define FORETILE_R18 FORETILE_R17 ", %68, %69, %70, %71"
#define FORETILE_R19 FORETILE_R18 ", %72, %73, %74, %75"
#define FORETILE_R20 FORETILE_R19 ", %76, %77, %78, %79"
#define FORETILE_R21 FORETILE_R20 ", %80, %81, %82, %83"
#define FORETILE_R22 FORETILE_R21 ", %84, %85, %86, %87"
#define FORETILE_R23 FORETILE_R22 ", %88, %89, %90, %91"
#define FORETILE_R24 FORETILE_R23 ", %92, %93, %94, %95"
#define FORETILE_R25 FORETILE_R24 ", %96, %97, %98, %99"
#define FORETILE_R26 FORETILE_R25 ", %100, %101, %102, %103"
#define FORETILE_R27 FORETILE_R26 ", %104, %105, %106, %107"
#define FORETILE_R28 FORETILE_R27 ", %108, %109, %110, %111"
#define FORETILE_R29 FORETILE_R28 ", %112, %113, %114, %115"
#define FORETILE_R30 FORETILE_R29 ", %116, %117, %118, %119"
#define FORETILE_R31 FORETILE_R30 ", %120, %121, %122, %123"
#define FORETILE_R32 FORETILE_R31 ", %124, %125, %126, %127"
#define FORETILE_O1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define FORETILE_O2 FORETILE_O1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define FORETILE_O3 FORETILE_O2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define FORETILE_O4 FORETILE_O3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define FORETILE_O5 FORETILE_O4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define FORETILE_O6 FORETILE_O5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define FORETILE_O7 FORETILE_O6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define FORETILE_O8 FORETILE_O7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define FORETILE_O9 FORETILE_O8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define FORETILE_O10 FORETILE_O9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define FORETILE_O11 FORETILE_O10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define FORETILE_O12 FORETILE_O11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define FORETILE_O13 FORETILE_O12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define FORETILE_O14 FORETILE_O13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define FORETILE_O15 FORETILE_O14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define FORETILE_O16 FORETILE_O15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define FORETILE_O17 FORETILE_O16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define FORETILE_O18 FORETILE_O17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define FORETILE_O19 FORETILE_O18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define FORETILE_O20 FORETILE_O19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define FORETILE_O21 FORETILE_O20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define FORETILE_O22 FORETILE_O21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define FORETILE_O23 FORETILE_O22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define FORETILE_O24 FORETILE_O23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define FORETILE_O25 FORETILE_O24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define FORETILE_O26 FORETILE_O25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define FORETILE_O27 FORETILE_O26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define FORETILE_O28 FORETILE_O27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define FORETILE_O29 FORETILE_O28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define FORETILE_O30 FORETILE_O29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define FORETILE_O31 FORETILE_O30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define FORETILE_O32 FORETILE_O31, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

template <int N> struct WgmmaShape;

// X: operand index of descriptor A; Y of B; P of the accumulate flag; TA, TB of the transposes.
#define FORETILE_WGMMA_TEXT(N, GROUPS, STEP, TYPES, X, Y, P, TAIL)                                        \
  "{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                                       \
  "wgmma.mma_async.sync.aligned.m64n" #N "k" STEP ".f32." TYPES " {" FORETILE_R##GROUPS "}, %" #X ", %" #Y \
  ", p, 1, 1" TAIL ";\n}"
#define FORETILE_WGMMA(N, GROUPS, X, Y, P, TA, TB)                                                             \
  template <> struct WgmmaShape<N> {                                                                            \
    template <DType T, bool TransposeA, bool TransposeB>                                                        \
    static FORETILE_DEVICE void issue(float (&d)[N / 2], u64 a, u64 b, u32 accumulate) {                        \
      if constexpr (T == DType::bf16) {                                                                         \
        asm volatile(FORETILE_WGMMA_TEXT(N, GROUPS, "16", "bf16.bf16", X, Y, P, ", %" #TA ", %" #TB)            \
                     : FORETILE_O##GROUPS : "l"(a), "l"(b), "r"(accumulate), "n"(int(TransposeA)), "n"(int(TransposeB))); \
      } else if constexpr (T == DType::fp16) {                                                                  \
        asm volatile(FORETILE_WGMMA_TEXT(N, GROUPS, "16", "f16.f16", X, Y, P, ", %" #TA ", %" #TB)              \
                     : FORETILE_O##GROUPS : "l"(a), "l"(b), "r"(accumulate), "n"(int(TransposeA)), "n"(int(TransposeB))); \
      } else {                                                                                                  \
        static_assert(T == DType::tf32 && !TransposeA && !TransposeB, "wgmma takes bf16, fp16 or tf32");        \
        asm volatile(FORETILE_WGMMA_TEXT(N, GROUPS, "8", "tf32.tf32", X, Y, P, "")                              \
                     : FORETILE_O##GROUPS : "l"(a), "l"(b), "r"(accumulate));                                   \
      }                                                                                                         \
    }                                                                                                           \
  };

FORETILE_WGMMA(8, 1, 4, 5, 6, 7, 8)
FORETILE_WGMMA(16, 2, 8, 9, 10, 11, 12)
FORETILE_WGMMA(24, 3, 12, 13, 14, 15, 16)
FORETILE_WGMMA(32, 4, 16, 17, 18, 19, 20)
FORETILE_WGMMA(40, 5, 20, 21, 22, 23, 24)
FORETILE_WGMMA(48, 6, 24, 25, 26, 27, 28)
FORETILE_WGMMA(56, 7, 28, 29, 30, 31, 32)
FORETILE_WGMMA(64, 8, 32, 33, 34, 35, 36)
FORETILE_WGMMA(72, 9, 36, 37, 38, 39, 40)
FORETILE_WGMMA(80, 10, 40, 41, 42, 43, 44)
FORETILE_WGMMA(88, 11, 44, 45, 46, 47, 48)
FORETILE_WGMMA(96, 12, 48, 49, 50, 51, 52)
FORETILE_WGMMA(104, 13, 52, 53, 54, 55, 56)
FORETILE_WGMMA(112, 14, 56, 57, 58, 59, 60)
FORETILE_WGMMA(120, 15, 60, 61, 62, 63, 64)
FORETILE_WGMMA(128, 16, 64, 65, 66, 67, 68)
FORETILE_WGMMA(136, 17, 68, 69, 70, 71, 72)
FORETILE_WGMMA(144, 18, 72, 73, 74, 75, 76)
FORETILE_WGMMA(152, 19, 76, 77, 78, 79, 80)
FORETILE_WGMMA(160, 20, 80, 81, 82, 83, 84)
FORETILE_WGMMA(168, 21, 84, 85, 86, 87, 88)
FORETILE_WGMMA(176, 22, 88, 89, 90, 91, 92)
FORETILE_WGMMA(184, 23, 92, 93, 94, 95, 96)
FORETILE_WGMMA(192, 24, 96, 97, 98, 99, 100)
FORETILE_WGMMA(200, 25, 100, 101, 102, 103, 104)
FORETILE_WGMMA(208, 26, 104, 105, 106, 107, 108)
FORETILE_WGMMA(216, 27, 108, 109, 110, 111, 112)
FORETILE_WGMMA(224, 28, 112, 113, 114, 115, 116)
FORETILE_WGMMA(232, 29, 116, 117, 118, 119, 120)
FORETILE_WGMMA(240, 30, 120, 121, 122, 123, 124)
FORETILE_WGMMA(248, 31, 124, 125, 126, 127, 128)
FORETILE_WGMMA(256, 32, 128, 129, 130, 131, 132)

#undef FORETILE_WGMMA
#undef FORETILE_WGMMA_TEXT


}  // namespace foretile::detail

namespace foretile {

template <DType T, int N, bool TransposeA, bool TransposeB>
FORETILE_DEVICE void wgmma(float (&acc)[N / 2], u64 descriptor_a, u64 descriptor_b, bool accumulate, Site) {
  detail::WgmmaShape<N>::template issue<T, TransposeA, TransposeB>(acc, descriptor_a, descriptor_b, accumulate);
}

}  // namespace foretile
