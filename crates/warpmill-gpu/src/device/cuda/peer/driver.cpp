// A CUDA driver of two devices whose memory is the host's: every call checks that handles and addresses are of the context that they
// are used in. FAKE_DRIVER: "direct": peer copies arrive; "lossy": they succeed, and nothing arrives; "none": no peer access.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {
enum { OK = 0, INVALID_VALUE = 1, NO_MEMORY = 2, INVALID_CONTEXT = 201, PEER_UNSUPPORTED = 217, INVALID_HANDLE = 400, ALREADY = 704 };
struct Context { int device; };
struct Handle { Context* context; };
Context contexts[2] = {{0}, {1}};
std::mutex lock;
// Device memory: bytes and context by address; page-locked memory: bytes by address.
std::map<uint64_t, std::pair<size_t, Context*>> memory;
std::map<uint64_t, size_t> pinned;
std::set<std::pair<Context*, Context*>> enabled;
thread_local std::vector<Context*> stack;

Context* current() { return stack.empty() ? nullptr : stack.back(); }
std::string mode() { const char* text = getenv("FAKE_DRIVER"); return text ? text : "direct"; }
bool within(uint64_t at, size_t bytes, Context* context) {
    std::lock_guard<std::mutex> guard(lock);
    auto next = memory.upper_bound(at);
    if (next == memory.begin()) return false;
    auto& [start, block] = *std::prev(next);
    return block.second == context && at + bytes <= start + block.first;
}
bool own(void* handle) { return handle && current() && static_cast<Handle*>(handle)->context == current(); }
int made(void** handle) { *handle = new Handle{current()}; return current() ? OK : INVALID_CONTEXT; }
}  // namespace

extern "C" {
int cuInit(unsigned) { return OK; }
int cuDriverGetVersion(int* version) { *version = 13000; return OK; }
int cuDeviceGetCount(int* count) { *count = 2; return OK; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal < 2 ? OK : INVALID_VALUE; }
int cuDeviceGetName(char* name, int, int) { strcpy(name, "Fake GPU"); return OK; }
int cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = 1 << 30; return OK; }
int cuDeviceGetAttribute(int* value, int, int) { *value = 9; return OK; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &contexts[device]; return OK; }
int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
int cuCtxGetCurrent(void** context) { *context = current(); return OK; }
int cuCtxPushCurrent_v2(void* context) { stack.push_back(static_cast<Context*>(context)); return OK; }
int cuCtxPopCurrent_v2(void** context) { *context = current(); stack.pop_back(); return OK; }
int cuGetErrorName(int, const char** text) { *text = "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int error, const char** text) {
    static thread_local std::string kept;
    kept = "error " + std::to_string(error);
    *text = kept.c_str();
    return OK;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) { *free = *total = 1 << 30; return OK; }
int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
    if (!current()) return INVALID_CONTEXT;
    void* block = calloc(bytes, 1);
    if (!block) return NO_MEMORY;
    std::lock_guard<std::mutex> guard(lock);
    *at = reinterpret_cast<uint64_t>(block);
    memory[*at] = {bytes, current()};
    return OK;
}
int cuMemFree_v2(uint64_t at) {
    if (!within(at, 1, current())) return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(lock);
    memory.erase(at);
    free(reinterpret_cast<void*>(at));
    return OK;
}
int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
    *at = calloc(bytes, 1);
    std::lock_guard<std::mutex> guard(lock);
    pinned[reinterpret_cast<uint64_t>(*at)] = bytes;
    return OK;
}
int cuMemFreeHost(void* at) {
    std::lock_guard<std::mutex> guard(lock);
    pinned.erase(reinterpret_cast<uint64_t>(at));
    free(at);
    return OK;
}
int cuPointerGetAttribute(void* value, int, uint64_t at) {
    std::lock_guard<std::mutex> guard(lock);
    auto next = pinned.upper_bound(at);
    if (next == pinned.begin() || at >= std::prev(next)->first + std::prev(next)->second) return INVALID_VALUE;
    *static_cast<unsigned*>(value) = 1;
    return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    if (!own(stream)) return INVALID_HANDLE;
    if (!within(to, bytes, current())) return INVALID_VALUE;
    memcpy(reinterpret_cast<void*>(to), from, bytes);
    return OK;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    if (!own(stream)) return INVALID_HANDLE;
    if (!within(from, bytes, current())) return INVALID_VALUE;
    memcpy(to, reinterpret_cast<void*>(from), bytes);
    return OK;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    if (!own(stream)) return INVALID_HANDLE;
    if (!within(to, bytes, current()) || !within(from, bytes, current())) return INVALID_VALUE;
    memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return OK;
}
int cuMemcpyPeerAsync(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, void* stream) {
    auto *target = static_cast<Context*>(to_context), *source = static_cast<Context*>(from_context);
    if (!own(stream)) return INVALID_HANDLE;
    if (target != current() || target == source) return INVALID_CONTEXT;
    if (!within(to, bytes, target) || !within(from, bytes, source)) return INVALID_VALUE;
    {
        std::lock_guard<std::mutex> guard(lock);
        // A driver copies through the host here: nothing must count on that.
        if (!enabled.count({target, source})) return PEER_UNSUPPORTED;
    }
    if (mode() == "direct") memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return OK;
}
int cuDeviceCanAccessPeer(int* permitted, int device, int peer) {
    *permitted = device != peer && mode() != "none";
    return OK;
}
int cuCtxEnablePeerAccess(void* peer, unsigned flags) {
    if (flags || peer == current()) return INVALID_VALUE;
    if (mode() == "none") return PEER_UNSUPPORTED;
    std::lock_guard<std::mutex> guard(lock);
    return enabled.insert({current(), static_cast<Context*>(peer)}).second ? OK : ALREADY;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
    if (!own(stream)) return INVALID_HANDLE;
    if (!within(to, bytes, current())) return INVALID_VALUE;
    memset(reinterpret_cast<void*>(to), value, bytes);
    return OK;
}
int cuMemsetD32Async(uint64_t to, unsigned value, size_t words, void* stream) {
    return cuMemsetD8Async(to, static_cast<unsigned char>(value), 4 * words, stream);
}
int cuStreamCreate(void** stream, unsigned) { return made(stream); }
int cuStreamDestroy_v2(void* stream) { return own(stream) ? OK : INVALID_HANDLE; }
int cuStreamSynchronize(void* stream) { return own(stream) ? OK : INVALID_HANDLE; }
int cuStreamWaitEvent(void* stream, void* event, unsigned) { return own(stream) && event ? OK : INVALID_HANDLE; }
int cuEventCreate(void** event, unsigned) { return made(event); }
int cuEventRecord(void* event, void* stream) { return own(event) && own(stream) ? OK : INVALID_HANDLE; }
int cuEventSynchronize(void* event) { return own(event) ? OK : INVALID_HANDLE; }
int cuEventDestroy_v2(void* event) { return own(event) ? OK : INVALID_HANDLE; }
}
