// A CUDA device that is not there: the free CUDA dispatch key of a torch built without CUDA.
//
// A tensor of it says cuda:0 and lies in the processor's memory. Every operation computes on the processor over views of
// that memory, after a look that no tensor of the processor's takes part, as CUDA refuses one. What would make the host
// wait for the device is counted by name.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <map>
#include <set>

using c10::Device, c10::DeviceType, c10::IValue, c10::Storage, c10::StorageImpl, at::Tensor;

namespace {
const Device CARD(DeviceType::CUDA, 0), HOST(DeviceType::CPU);
bool there = false;  // as long as a test pretends it
std::mutex counting;
std::map<std::string, int64_t> waits;

void wait_for_card(const std::string& why, int64_t times = 1) {
  std::lock_guard<std::mutex> lock(counting);
  waits[why] += times;
}

std::atomic<int64_t> allocated{0};  // bytes of the card that storages hold

struct Held {
  Storage storage;
  int64_t bytes;
  ~Held() { allocated -= bytes; }
};

void forget_storage(void* held) { delete static_cast<Held*>(held); }

// The same memory as a storage of another device, which keeps the first one alive.
c10::DataPtr seen_from(const Storage& storage, Device device) {
  int64_t bytes = device == CARD ? storage.nbytes() : 0;
  allocated += bytes;
  return {storage.mutable_data(), new Held{storage, bytes}, forget_storage, device};
}

struct CardAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return seen_from(Storage(Storage::use_byte_size_t(), bytes, c10::GetAllocator(DeviceType::CPU)), CARD);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
} card_allocator;

Tensor seen_from(const Tensor& tensor, Storage storage, c10::DispatchKey key) {
  auto other = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  other.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) other.unsafeGetTensorImpl()->set_wrapped_number(true);
  return other;
}

Tensor on_host(const Tensor& tensor) {
  const auto& storage = tensor.storage();
  return seen_from(tensor, Storage(Storage::use_byte_size_t(), storage.nbytes(), seen_from(storage, HOST),
                                   c10::GetAllocator(DeviceType::CPU), true), c10::DispatchKey::CPU);
}

Storage on_card(const Storage& storage) {
  return Storage(Storage::use_byte_size_t(), storage.nbytes(), seen_from(storage, CARD), &card_allocator, true);
}

struct CardGenerator final : at::GeneratorImpl {
  CardGenerator() : GeneratorImpl(CARD, c10::DispatchKeySet(c10::DispatchKey::CUDA)), inner(at::detail::createCPUGenerator()) {}
  at::Generator inner;
  void set_current_seed(uint64_t seed) override { inner.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner.set_offset(offset); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return inner.seed(); }
  void set_state(const c10::TensorImpl& state) override { inner.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner.unsafeGetGeneratorImpl()->get_state(); }
  CardGenerator* clone_impl() const override {
    auto* copy = new CardGenerator();
    copy->inner.set_state(inner.get_state());
    return copy;
  }
};

const at::Generator& the_generator() {
  static at::Generator generator = at::make_generator<CardGenerator>();
  return generator;
}

at::Generator inner_of(const at::Generator& generator) {
  TORCH_CHECK(generator.device().is_cuda(), "Expected a 'cuda' device type for generator but found 'cpu'");
  return static_cast<CardGenerator*>(generator.unsafeGetGeneratorImpl())->inner;
}

struct Hooks final : at::CUDAHooksInterface {
  bool hasCUDA() const override { return there; }
  bool isBuilt() const override { return there; }
  bool isAvailable() const override { return there; }
  c10::DeviceIndex deviceCount() const override { return there; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  void init() const override {}
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return the_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<CardGenerator>(); }
  Device getDeviceFromPtr(void*) const override { return CARD; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(DeviceType::CPU); }
};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device exchangeDevice(Device) const override { return CARD; }
  Device getDevice() const override { return CARD; }
  c10::Stream getStream(Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, CARD); }
  c10::Stream getNewStream(Device, int) const override { return c10::Stream(c10::Stream::DEFAULT, CARD); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, CARD); }
};

// How often CUDA waits inside an operation; copies and masks used as indices are seen to below.
const std::map<std::string, int64_t> WAITING = {
    {"aten::_local_scalar_dense", 1}, {"aten::nonzero", 1}, {"aten::masked_select", 1}, {"aten::equal", 1},
    {"aten::bincount", 2}, {"aten::multinomial", 1}, {"aten::_unique2", 1}, {"aten::unique_dim", 1},
    {"aten::unique_consecutive", 1}, {"aten::repeat_interleave", 1}};
// Where CUDA takes indices that lie on the processor; it copies them.
const std::set<std::string> INDEXED = {"aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"};

// What an operation is called with, on the host, and how that finds back to the card.
struct Call {
  std::string name;
  std::map<StorageImpl*, Storage> storages;  // of the host's views → the card's
  std::map<size_t, Tensor> views;            // of argument number i

  Tensor take(const Tensor& tensor, const std::string& argument, bool index) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_cuda()) {
      bool number = tensor.dim() == 0 && argument != "index" && argument != "mask";
      TORCH_CHECK(number || index, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and ",
                  tensor.device(), "! (argument ", argument, " of ", name, ")");
      if (index) wait_for_card("to_card");
      return tensor;
    }
    auto view = on_host(tensor);
    storages.emplace(view.storage().unsafeGetStorageImpl(), tensor.storage());
    return view;
  }

  // A result; a view of an argument stays one.
  Tensor give(const Tensor& tensor) {
    if (!tensor.defined() || tensor.is_cuda()) return tensor;
    auto found = storages.find(tensor.storage().unsafeGetStorageImpl());
    auto storage = found == storages.end() ? on_card(tensor.storage()) : found->second;
    return seen_from(tensor, storage, c10::DispatchKey::CUDA);
  }
};

// What was written may have grown.
void written(const Tensor& tensor, const Tensor& view) {
  auto storage = tensor.storage();
  if (view.storage().data() != storage.data() || view.storage().nbytes() != storage.nbytes()) {
    storage.set_data_ptr_noswap(seen_from(view.storage(), CARD));
    storage.set_nbytes(view.storage().nbytes());
  }
  if (view.sizes() != tensor.sizes() || view.strides() != tensor.strides())
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
}

bool holds_a_mask(const IValue& indices) {
  for (const IValue& index : indices.toListRef())
    if (index.isTensor() && index.toTensor().defined() && index.toTensor().scalar_type() == at::kBool) return true;
  return false;
}

void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  const auto& schema = op.schema();
  const auto count = schema.arguments().size(), begin = stack->size() - count;
  Call call{schema.name()};
  std::vector<IValue> given(stack->begin() + begin, stack->end());
  if (auto found = WAITING.find(call.name); found != WAITING.end()) wait_for_card(call.name, found->second);
  if (call.name == "aten::_index_put_impl_" && holds_a_mask(given[1])) wait_for_card("index_put_ of a mask");
  std::optional<at::Generator> drawn;
  bool has_self = !given.empty() && given[0].isTensor() && given[0].toTensor().defined() && given[0].toTensor().is_cuda();
  for (size_t i = 0; i < count; i++) {
    const auto& argument = schema.arguments()[i];
    auto& value = (*stack)[begin + i];
    if (value.isTensor()) {
      call.views[i] = call.take(value.toTensor(), argument.name(), false);
      value = call.views[i];
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& tensor : list) tensor = call.take(tensor, argument.name(), false);
      value = list;
    } else if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<Tensor>> list;
      for (const IValue& item : value.toListRef())
        list.push_back(item.isNone() ? std::nullopt : std::optional<Tensor>(call.take(
            item.toTensor(), argument.name(), has_self && INDEXED.count(call.name))));
      value = list;
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      value = HOST;
    } else if (value.isGenerator()) {
      value = inner_of(value.toGenerator());
      drawn = value.toGenerator();
    }
  }
  if (op.hasTag(at::Tag::nondeterministic_seeded) && !drawn) {
    // Where no generator is named the card's own one is used, be it that the processor's must lend its place.
    auto host = at::detail::getDefaultCPUGenerator();
    auto inner = inner_of(the_generator());
    auto kept = host.get_state();
    host.set_state(inner.get_state());
    auto back = [&] { inner.set_state(host.get_state()); host.set_state(kept); };
    try { op.callBoxed(stack); } catch (...) { back(); throw; }
    back();
  } else {
    op.callBoxed(stack);
  }
  const auto results = schema.returns().size(), first = stack->size() - results;
  for (size_t i = 0; i < count; i++) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    if (given[i].isTensor() && given[i].toTensor().is_cuda()) written(given[i].toTensor(), call.views.at(i));
  }
  for (size_t r = 0; r < results; r++) {
    auto& value = (*stack)[first + r];
    const auto* alias = schema.returns()[r].alias_info();
    if (alias != nullptr && alias->isWrite()) {
      for (size_t i = 0; i < count; i++) {
        const auto* other = schema.arguments()[i].alias_info();
        if (other != nullptr && *other == *alias) value = given[i];
      }
    } else if (value.isTensor()) {
      value = call.give(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& tensor : list) tensor = call.give(tensor);
      value = list;
    }
  }
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  at::AutoDispatchBelowADInplaceOrView below;
  if (self.device() != source.device() && !non_blocking && self.numel()) wait_for_card(self.is_cuda() ? "to_card" : "to_cpu");
  auto to = self.is_cuda() ? on_host(self) : self;
  to.copy_(source.is_cuda() ? on_host(source) : source);
  return self;
}

Tensor& set_(Tensor& self, Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  TORCH_CHECK(source.device().is_cuda(), "Expected a storage on cuda:0, got one on ", source.device());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return self;
}

Tensor& set_whole_(Tensor& self, Storage source) {
  int64_t size = source.nbytes() / self.itemsize();
  return set_(self, std::move(source), 0, {size}, {1});
}

// Attention by matrix products: the fused kernels are told apart by the device's type inside.
int64_t by_products(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, double, bool,
                    std::optional<double>, bool) { return 0; }

c10::Dict<std::string, int64_t> take_counts() {
  std::lock_guard<std::mutex> lock(counting);
  c10::Dict<std::string, int64_t> counts;
  for (const auto& [why, times] : waits) counts.insert(why, times);
  waits.clear();
  return counts;
}
}  // namespace

// torch asked for its hooks when it was imported and keeps the answer: this one, without members, takes its place.
static_assert(sizeof(Hooks) == sizeof(at::CUDAHooksInterface));
static auto* hooks = new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) Hooks();
C10_REGISTER_GUARD_IMPL(CUDA, Guard)
static c10::AllocatorRegisterer<DeviceType::CUDA> registered_allocator(&card_allocator);

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_host>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("copy_", &copy_);
  m.impl("set_.source_Storage_storage_offset", &set_);
  m.impl("set_.source_Storage", &set_whole_);
  m.impl("_fused_sdp_choice", &by_products);
}
TORCH_LIBRARY(card, m) {
  m.def("take_counts", &take_counts);
  m.def("default_generator", [] { return the_generator(); });
  m.def("allocated", [] { return allocated.load(); });
  m.def("pretend", [](bool now) { there = now; });
}
