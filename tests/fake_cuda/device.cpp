// CUDA devices that are not there, for a torch that was built without CUDA: their memory is the host's, and every
// operation is the CPU's. Dispatch, autograd, autocast and c10d treat their tensors as those of a GPU; here what is
// allocated is counted, and an operation for which the host would wait says so in torch's own words.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <atomic>
#include <chrono>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::IValue, c10::Stream;

constexpr int MOST = 16;  // devices
int devices = 1;
thread_local DeviceIndex current = 0;
std::atomic<int64_t> used{0};  // a bit for each device on which this process has a context

void use(DeviceIndex device) { used |= int64_t{1} << device; }

// ---- memory ---------------------------------------------------------------------------------------------------------

struct Memory {
  std::atomic<int64_t> allocated{0}, peak{0}, limit{INT64_MAX};
};
std::array<Memory, MOST> memory;

void take(DeviceIndex device, int64_t nbytes) {
  use(device);
  Memory& here = memory[device];
  TORCH_CHECK_WITH(
      OutOfMemoryError, here.allocated + nbytes <= here.limit, "CUDA out of memory. Tried to allocate ", nbytes, " bytes");
  int64_t now = here.allocated += nbytes;
  int64_t before = here.peak;
  while (now > before && !here.peak.compare_exchange_weak(before, now)) {
  }
}

// A piece of the host's memory that belongs to a device.
struct Piece {
  c10::DataPtr host;
  DeviceIndex device;
  int64_t nbytes;
};

void release(void* context) {
  auto piece = static_cast<Piece*>(context);
  memory[piece->device].allocated -= piece->nbytes;
  delete piece;
}

c10::DataPtr of_device(c10::DataPtr host, int64_t nbytes, DeviceIndex device) {
  take(device, nbytes);
  void* data = host.get();
  auto piece = new Piece{std::move(host), device, nbytes};
  return {data, piece, release, Device(DeviceType::CUDA, device)};
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    return of_device(c10::GetCPUAllocator()->allocate(nbytes), nbytes, current);
  }
  void copy_data(void* to, const void* from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, Stream) override {}
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex device) override { memory[device].peak = memory[device].allocated.load(); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    c10::CachingAllocator::Stat& bytes = stats.allocated_bytes[0];
    bytes.current = memory[device].allocated;
    bytes.peak = memory[device].peak;
    stats.reserved_bytes[0] = bytes;
    return stats;
  }
} allocator;

struct Registered {
  Registered() { c10::SetAllocator(DeviceType::CUDA, &allocator); }
} registered;

// ---- waiting --------------------------------------------------------------------------------------------------------

enum Mode { QUIET, WARN, ERROR };
std::atomic<int> mode{QUIET};
// Operations whose result the host has to know before it can go on, as in torch's kernels for CUDA.
const std::unordered_set<std::string> READS = {
    "aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select", "aten::_unique2",
    "aten::unique_consecutive", "aten::is_pinned"};

void waits() {
  constexpr auto text = "called a synchronizing CUDA operation";  // c10/cuda/CUDAFunctions.cpp
  TORCH_CHECK(mode != ERROR, text);
  if (mode == WARN) TORCH_WARN(text);
}

bool copy_waits(const torch::jit::Stack& arguments) {
  return arguments[0].toTensor().is_cuda() != arguments[1].toTensor().is_cuda() && !arguments[2].toBool();
}

// ---- operations -----------------------------------------------------------------------------------------------------

void forget(void* context) { delete static_cast<c10::Storage*>(context); }

// The arguments of one call as tensors of the host that share the memory of those of the device.
struct Call {
  struct Pair {
    at::Tensor device, host;
  };
  std::vector<Pair> pairs;
  c10::optional<Device> place;

  at::Tensor to_host(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    if (!place) place = tensor.device();
    c10::intrusive_ptr<c10::StorageImpl> storage;
    for (const Pair& pair : pairs) {
      if (pair.device.is_same(tensor)) return pair.host;
      if (pair.device.storage().is_alias_of(tensor.storage()))
        storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(pair.host.storage().unsafeGetStorageImpl());
    }
    if (!storage) {
      auto kept = new c10::Storage(tensor.storage());
      c10::DataPtr data(const_cast<void*>(tensor.storage().data()), kept, forget, Device(DeviceType::CPU));
      storage = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), tensor.storage().nbytes(), std::move(data), c10::GetCPUAllocator(), true);
    }
    at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    host.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    pairs.push_back({tensor, host});
    return host;
  }

  IValue to_host(const IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor());
    if (value.isDevice()) {
      if (!value.toDevice().is_cuda()) return value;
      place = value.toDevice();
      return Device(DeviceType::CPU);
    }
    if (value.isGenerator()) return IValue();
    if (value.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const at::Tensor& each : value.toTensorVector()) made.push_back(to_host(each));
      return made;
    }
    if (value.isList()) {
      c10::List<IValue> old = value.toList();
      c10::impl::GenericList made(old.elementType());
      for (size_t i = 0; i < old.size(); ++i) made.push_back(to_host(old.get(i)));
      return made;
    }
    return value;
  }

  at::Tensor to_device(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu()) return tensor;
    c10::Storage storage;
    for (const Pair& pair : pairs) {
      if (pair.host.is_same(tensor)) return pair.device;
      if (pair.host.storage().is_alias_of(tensor.storage())) storage = pair.device.storage();
    }
    if (!storage) storage = moved(tensor.storage());
    at::Tensor device = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), tensor.dtype());
    device.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    if (pairs.empty() || !tensor.is_same(pairs.back().host)) pairs.push_back({device, tensor});
    return device;
  }

  IValue to_device(const IValue& value) {
    if (value.isTensor()) return to_device(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const at::Tensor& each : value.toTensorVector()) made.push_back(to_device(each));
      return made;
    }
    if (value.isList()) {
      c10::List<IValue> old = value.toList();
      c10::impl::GenericList made(old.elementType());
      for (size_t i = 0; i < old.size(); ++i) made.push_back(to_device(old.get(i)));
      return made;
    }
    return value;
  }

  // What an operation has made belongs to the device from now on; the host's storage keeps a view of it.
  c10::Storage moved(const c10::Storage& host) {
    DeviceIndex index = place && place->has_index() ? place->index() : current;
    int64_t nbytes = host.nbytes();
    void* data = const_cast<void*>(host.data());
    auto kept = new c10::Storage(host);
    c10::DataPtr whole(data, kept, forget, Device(DeviceType::CPU));
    return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), nbytes, of_device(std::move(whole), nbytes, index), &allocator, true));
  }

  // Results that were handed in and have grown.
  void follow() {
    for (Pair& pair : pairs) {
      auto to = pair.device.unsafeGetTensorImpl();
      auto from = pair.host.unsafeGetTensorImpl();
      if (to->storage().data() != from->storage().data()) {
        c10::Storage made = moved(from->storage());
        to->storage().unsafeGetStorageImpl()->set_nbytes(made.nbytes());
        to->storage().set_data_ptr_noswap(std::move(made.mutable_data_ptr()));
      }
      if (to->sizes() != from->sizes() || to->strides() != from->strides())
        to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
    }
  }
};

// A collective under way: whoever asks for its results gets those of the device, which share memory with the host's.
struct Work final : c10d::Work {
  c10::intrusive_ptr<c10d::Work> host;
  std::vector<at::Tensor> results;

  Work(c10::intrusive_ptr<c10d::Work> host, const Call& call) : host(std::move(host)) {
    for (const Call::Pair& pair : call.pairs) results.push_back(pair.device);
  }
  bool isCompleted() override { return host->isCompleted(); }
  bool wait(std::chrono::milliseconds timeout) override { return host->wait(timeout); }
  std::vector<at::Tensor> result() override { return results; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto type = c10::ListType::create(c10::TensorType::get());
    auto future = c10::make_intrusive<c10::ivalue::Future>(type, std::vector<Device>{results.at(0).device()});
    host->getFuture()->addCallback([future, results = results](c10::ivalue::Future& done) {
      if (done.hasError())
        future->setError(done.exception_ptr());
      else
        future->markCompleted(IValue(results));
    });
    return future;
  }
};

void on_the_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const std::string& name = operation.schema().name();
  size_t inputs = operation.schema().arguments().size(), outputs = operation.schema().returns().size();
  auto arguments = torch::jit::last(*stack, inputs).vec();
  if (READS.count(name) || (name == "aten::copy_" && copy_waits(arguments))) waits();
  torch::jit::drop(*stack, inputs);
  Call call;
  for (const IValue& argument : arguments) stack->push_back(call.to_host(argument));
  {
    at::AutoDispatchBelowADInplaceOrView below;
    operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.follow();
  auto results = torch::jit::last(*stack, outputs).vec();
  torch::jit::drop(*stack, outputs);
  for (const IValue& result : results) {
    if (result.isCustomClass() && name.rfind("c10d::", 0) == 0) {
      c10::intrusive_ptr<c10d::Work> work = c10::make_intrusive<Work>(result.toCustomClass<c10d::Work>(), call);
      stack->push_back(IValue(work));
    } else {
      stack->push_back(call.to_device(result));
    }
  }
}

auto everything() { return torch::CppFunction::makeFromBoxedFunction<&on_the_host>(); }

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(everything()); }

// ---- attention: chosen as CUDA does, computed by the CPU's kernel ----------------------------------------------------

using at::Tensor, c10::SymInt, std::optional;

// The order of a Hopper with cuDNN 9.15.1 or newer (sdp_utils.cpp, check_prefer_cudnn_attention).
int64_t choice(const Tensor& query, const Tensor&, const Tensor&, const optional<Tensor>& mask, double, bool,
               optional<double>, bool) {
  const at::Context& context = at::globalContext();
  bool low = query.scalar_type() != at::kFloat && query.scalar_type() != at::kDouble;
  if (low && !mask && context.userEnabledCuDNNSDP()) return 3;
  if (low && !mask && context.userEnabledFlashSDP()) return 1;
  TORCH_CHECK(context.userEnabledMemEfficientSDP(), "No available kernel. Aborting execution.");
  return 2;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, SymInt, SymInt, Tensor, Tensor, Tensor> flash(
    const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool, optional<double> scale) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, {}, scale);
  return {out, sums, {}, {}, q.size(2), k.size(2), sums, sums, {}};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& sums,
    const Tensor&, const Tensor&, SymInt, SymInt, double dropout, bool causal, const Tensor&, const Tensor&,
    optional<double> scale) {
  return at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, k, v, out, sums, dropout, causal, {}, scale);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, SymInt, SymInt, Tensor, Tensor, Tensor> cudnn(
    const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>&, bool, double dropout, bool causal,
    bool debug, optional<double> scale) {
  return flash(q, k, v, dropout, causal, debug, scale);
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& sums,
    const Tensor&, const Tensor&, const Tensor&, const Tensor& cum_q, const Tensor& cum_k, SymInt max_q, SymInt max_k,
    double dropout, bool causal, optional<double> scale) {
  return flash_backward(grad, q, k, v, out, sums, cum_q, cum_k, max_q, max_k, dropout, causal, {}, {}, scale);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(
    const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, bool, double dropout, bool causal,
    optional<double> scale) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale);
  return {out, sums, sums, sums};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
    const Tensor& sums, const Tensor&, const Tensor&, double dropout, std::array<bool, 4>, bool causal,
    optional<double> scale) {
  optional<Tensor> given = mask.defined() ? optional<Tensor>(mask) : std::nullopt;
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, k, v, out, sums, dropout, causal, given, scale);
  return {dq, dk, dv, {}};
}

struct Chosen {
  Chosen() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choice); }
} chosen;

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", everything());
  library.impl("_scaled_dot_product_flash_attention", flash);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_backward);
  library.impl("_scaled_dot_product_cudnn_attention", cudnn);
  library.impl("_scaled_dot_product_cudnn_attention_backward", cudnn_backward);
  library.impl("_scaled_dot_product_efficient_attention", efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
}

TORCH_LIBRARY_IMPL(c10d, CUDA, library) {
  for (auto name :
       {"allreduce_", "allreduce_coalesced_", "allgather_", "_allgather_base_", "allgather_coalesced_",
        "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_",
        "reduce_scatter_tensor_coalesced_", "broadcast_", "reduce_", "gather_", "scatter_", "alltoall_",
        "alltoall_base_", "barrier", "send", "recv_"})
    library.impl(name, everything());
}

// ---- devices --------------------------------------------------------------------------------------------------------

// An event. Nobody may read its time before the host has waited for it, or for all that came before.
struct Mark {
  double time;
  int64_t number;
};
std::atomic<int64_t> marks{0}, reached{0};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device getDevice() const override { return Device(DeviceType::CUDA, current); }
  Device exchangeDevice(Device device) const override {
    Device before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }
  DeviceIndex deviceCount() const noexcept override { return devices; }
  Stream getStream(Device device) const override { return only(device); }
  Stream getDefaultStream(Device device) const override { return only(device); }
  Stream getNewStream(Device device, int) const override { return only(device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return only(device); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void record(void** event, const Stream&, const DeviceIndex device, const c10::EventFlag) const override {
    if (!*event) *event = new Mark;
    use(device);
    *static_cast<Mark*>(*event) = {milliseconds(), ++marks};
  }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void* event) const override { return static_cast<Mark*>(event)->number <= reached; }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<Mark*>(event); }
  double elapsedTime(void* first, void* last, const DeviceIndex) const override {
    return static_cast<Mark*>(last)->time - static_cast<Mark*>(first)->time;
  }
  void synchronizeEvent(void* event) const override { reached = std::max<int64_t>(reached, static_cast<Mark*>(event)->number); }
  void synchronizeDevice(const DeviceIndex device) const override {
    use(device);
    waits();  // CUDA's debug mode does not see this one
    reached = marks.load();
  }
  static double milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
  static Stream only(Device device) {
    return Stream(Stream::DEFAULT, Device(DeviceType::CUDA, device.has_index() ? device.index() : current));
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return devices; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex current_device() const override { return current; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    use(current);
    return c10::GetCPUAllocator();
  }
  bool isPinnedPtr(const void*) const override { return false; }
};

// Of DDP's logger, which has none for a device that it does not know.
struct Timer final : c10d::Timer {
  explicit Timer(Device) {}
  std::optional<int64_t> measureDifference(Event, Event) override { return std::nullopt; }
};

}  // namespace

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kCUDA, ::Timer)
}

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}

extern "C" {
void resize(c10::StorageImpl* storage, int64_t nbytes) {
  c10::DataPtr made = of_device(c10::GetCPUAllocator()->allocate(nbytes), nbytes, storage->device().index());
  std::memcpy(made.get(), storage->data(), std::min<int64_t>(nbytes, storage->nbytes()));
  storage->set_data_ptr_noswap(std::move(made));
  storage->set_nbytes(nbytes);
}
void set_devices(int count) { devices = count; }
void set_device(int index) { current = index; }
int get_device() { return current; }
void use_device() { use(current); }
int64_t used_devices() { return used; }
void set_sync_mode(int asked) { mode = asked; }
void host_waits() { waits(); }
int warns_of_waits() { return mode == WARN; }
void set_limit(int device, int64_t nbytes) { memory[device].limit = nbytes; }
int64_t allocated(int device) { return memory[device].allocated; }
int64_t peak(int device) { return memory[device].peak; }
void reset_peak(int device) { memory[device].peak = memory[device].allocated.load(); }
}
