/* T004, T071: the proxy's descriptor, bit for bit, by its bit-fields and by our encoder. */
#include <nccl.h>
#include <stddef.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>

#include <cstring>

#include "check.h"

static void bitFields() {
  ncclGinProxyQword_t q;
  q.raw = 0;
  q.header.flag = 1;
  q.header.op = 0x15;
  q.header.size = 0x123456;
  CHECK(q.raw == 0x091a2b2b);
  q.raw = 0;
  q.inlineLow.flag = 1;
  q.inlineLow.inlineValLow = 0x44332211;
  q.inlineLow.inlineValLow2 = 0x6655;
  CHECK(q.raw == 0x0066554433221101);
  q.raw = 0;
  q.inlineHigh.flag = 1;
  q.inlineHigh.inlineValHigh = 0x8877;
  CHECK(q.raw == 0x887701);
  q.raw = 0;
  q.dstOff.dstOff = 0x1234;
  q.flag.v = 1;
  CHECK(q.raw == 0x2469);
  q.raw = 0;
  q.completion.flag = 1;
  q.completion.counterId = 0xc0c1;
  q.completion.signalId = 0x5051;
  q.completion.signalValLow = 0xa0a1;
  CHECK(q.raw == 0x00a0a15051c0c101);
  q.raw = 0;
  q.signalVal.flag = 1;
  q.signalVal.signalValLow2 = 0xb0b1;
  q.signalVal.signalValHigh = 0xd0d1d2d3;
  CHECK(q.raw == 0x00d0d1d2d3b0b101);
}

#ifdef OURS
#include <ginrs_device/gin/descriptor.cuh>
using namespace ginrs::gin;

static void encoder() {
  Operation op;
  op.bytes = 0x123456;
  op.dstWin = ncclGinWindow_t(0x7f0000001000);
  op.dstOff = 0x1234;
  op.srcWin = ncclGinWindow_t(0x7f0000002000);
  op.srcOff = 0x4321;
  op.hasSignal = true;
  op.signalId = 0x5051;
  op.signalOp = ncclGinSignalAdd;
  op.signalArg = 0xd0d1d2d3b0b1a0a1;
  op.hasCounter = true;
  op.counterId = 0xc0c1;
  CHECK(fault(op) == nullptr);
  ncclGinProxyGfd_t gfd = encode(op);
  uint64_t want[8] = {0x091a2b2b,         0x4321 << 1 | 1,    uint64_t(0x7f0000002000) << 1 | 1, 0x2469,
                      uint64_t(0x7f0000001000) << 1 | 1, 0x00a0a15051c0c101, 0x00d0d1d2d3b0b101, 1};
  for (int i = 0; i < 8; i++) CHECK(gfd.qword[i].raw == want[i]);

  op.hasCounter = false;
  op.signalOp = ncclGinSignalInc;
  gfd = encode(op);
  CHECK(gfd.qword[0].header.op == 0x9 && gfd.qword[5].raw == (1 | uint64_t(0x5051) << 24 | uint64_t(1) << 40));
  CHECK(gfd.qword[6].raw == 1);
  op.hasSignal = false;
  gfd = encode(op);
  CHECK(gfd.qword[0].header.op == 1 && gfd.qword[5].raw == 1 && gfd.qword[6].raw == 1);
}

struct Odd {
  unsigned char bytes[7];
};
static void values() {
  Operation op;
  op.isInline = true;
  op.value = bitsOf(1.5f);
  op.bytes = 4;
  ncclGinProxyGfd_t gfd = encode(op);
  CHECK(gfd.qword[0].header.op == 3 && gfd.qword[1].inlineLow.inlineValLow == 0x3fc00000);
  double d = -1.0 / 3;
  uint64_t bits;
  memcpy(&bits, &d, 8);
  op.value = bitsOf(d);
  op.bytes = 8;
  gfd = encode(op);
  CHECK(gfd.qword[1].inlineLow.inlineValLow == uint32_t(bits) && gfd.qword[1].inlineLow.inlineValLow2 == (bits >> 32 & 0xffff));
  CHECK(gfd.qword[2].inlineHigh.inlineValHigh == bits >> 48);
  CHECK(bitsOf(Odd{{1, 2, 3, 4, 5, 6, 7}}) == 0x07060504030201 && bitsOf(int8_t(-1)) == 0xff);
}

static void faults() {
  Operation op;
  op.bytes = (uint64_t(1) << 57) - 1;
  op.hasSignal = op.hasCounter = true;
  op.signalId = op.counterId = 65535;
  CHECK(fault(op) == nullptr);
  CHECK(encode(op).qword[0].header.size == op.bytes && encode(op).qword[0].header.op == 0xd);
  op.bytes += 1;
  CHECK(fault(op) != nullptr && strstr(fault(op), "2^57"));
  op.bytes = 8;
  op.signalId = 65536;
  CHECK(fault(op) != nullptr && strstr(fault(op), "signal id"));
  op.signalId = 0;
  op.counterId = 65536;
  CHECK(fault(op) != nullptr && strstr(fault(op), "counter id"));
  op.hasCounter = false;
  CHECK(fault(op) == nullptr); /* an id that is not sent may be anything */
  op.srcOff = uint64_t(1) << 63;
  CHECK(fault(op) != nullptr && strstr(fault(op), "offset"));
}
#endif

int main() {
  bitFields();
#ifdef OURS
  encoder();
  values();
  faults();
#endif
  return failures;
}
