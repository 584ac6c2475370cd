// D[2,3] = relu(A[2,4] x B[3,4]^T + bias[3]): two tokens through a layer of three outputs and four inputs.
#include <foretile/foretile.h>

#include <cstdio>

int main() {
  const foretile::bf16 one{0x3f80}, two{0x4000}, minus_one{0xbf80};  // bit patterns: 1, 2, -1
  const foretile::bf16 a[2][4] = {{one, one, one, one}, {two, two, two, two}};
  const foretile::bf16 b[3][4] = {{one, one, one, one}, {two, one, one, one}, {minus_one, minus_one, one, minus_one}};
  const float bias[3] = {0.5f, 0, 0}, expected[2][3] = {{4.5f, 5, 0}, {8.5f, 10, 0}};

  foretile::DeviceMemory device_a, device_b, device_bias, device_d;
  foretile::Status status = device_a.allocate(sizeof a);
  if (status.code() == foretile::Code::no_driver) return std::printf("no GPU here: %s\n", status.message().c_str()), 0;
  if (status) status = device_b.allocate(sizeof b);
  if (status) status = device_bias.allocate(sizeof bias);
  if (status) status = device_d.allocate(sizeof expected);
  if (status) status = device_a.upload(a, sizeof a);
  if (status) status = device_b.upload(b, sizeof b);
  if (status) status = device_bias.upload(bias, sizeof bias);

  foretile::Matmul call;
  call.m = 2, call.n = 3, call.k = 4;
  call.a = {device_a.data(), foretile::DType::bf16};
  call.b = {device_b.data(), foretile::DType::bf16};
  call.d = {device_d.data(), foretile::DType::fp32};
  call.bias = {device_bias.data(), foretile::DType::fp32};
  call.activation = foretile::Activation::relu;
  if (status) status = foretile::matmul(call);

  float d[2][3] = {};
  if (status) status = device_d.download(d, sizeof d);
  if (!status) return std::printf("%s\n", status.message().c_str()), 1;
  bool right = true;
  for (int i = 0; i < 6; ++i) right &= d[i / 3][i % 3] == expected[i / 3][i % 3];
  std::printf("%g %g %g\n%g %g %g\n%s\n", d[0][0], d[0][1], d[0][2], d[1][0], d[1][1], d[1][2], right ? "right" : "wrong");
  return right ? 0 : 1;
}
