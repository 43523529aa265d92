/* Speaks the part of the NVML C interface that the runtime uses, for two made-up devices.
 * Device 0 is plain; device 1 runs in MIG mode and has more processes than fit at first.
 * STAND_IN_FAIL makes the start fail, STAND_IN_OLD leaves out what older drivers don't have.
 * STAND_IN_PID, or the number in the file STAND_IN_PID_FILE, is who computes on device 0;
 * STAND_IN_BUSY is how busy, in percent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define UNKNOWN_ERROR 999
#define DRIVER_NOT_LOADED 9
#define NOT_SUPPORTED 3
#define INVALID_ARGUMENT 2
#define INSUFFICIENT_SIZE 7
#define GIB (1024ULL * 1024 * 1024)

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned long long total, free, used; } Memory1;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } Process;

static int devices[2] = {0, 1};
static int is_open = 0;

int nvmlInit_v2(void) {
    if (getenv("STAND_IN_FAIL")) return DRIVER_NOT_LOADED;
    is_open = 1;
    return OK;
}
int nvmlShutdown(void) { is_open = 0; return OK; }
const char *nvmlErrorString(int status) {
    return status == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "615.10");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!is_open) return UNKNOWN_ERROR;
    *count = 3;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return UNKNOWN_ERROR;
    *device = &devices[index];
    return OK;
}
static int number(void *device) { return *(int *)device; }
int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    snprintf(text, length, number(device) ? "Test H100" : "Test RTX");
    return OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "GPU-000%d", number(device));
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory2 *memory) {
    if (getenv("STAND_IN_OLD")) return NOT_SUPPORTED;
    if (memory->version != (sizeof(Memory2) | 2 << 24)) return INVALID_ARGUMENT;
    memory->total = 24 * GIB;
    memory->reserved = GIB / 2;
    memory->used = (number(device) + 1) * GIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory1 *memory) {
    memory->total = 24 * GIB;
    memory->used = (number(device) + 1) * GIB;
    memory->free = memory->total - memory->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, Utilisation *rates) {
    const char *busy = getenv("STAND_IN_BUSY");
    rates->gpu = (busy ? atoi(busy) : 40) + number(device);
    rates->memory = 7;
    return OK;
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    if (!number(device)) return NOT_SUPPORTED;
    *current = *pending = 1;
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = 8 + number(device);
    *minor = 9;
    return OK;
}
int nvmlDeviceGetDisplayActive(void *device, unsigned *active) {
    *active = !number(device);
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *table) {
    unsigned there = number(device) ? 100 : 1;
    if (*count < there) { *count = there; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < there; i++) {
        table[i] = (Process){4000000 + i, GIB / 4, 0, 0};
    }
    if (!number(device) && getenv("STAND_IN_PID")) table[0].pid = atoi(getenv("STAND_IN_PID"));
    if (!number(device) && getenv("STAND_IN_PID_FILE")) {
        FILE *file = fopen(getenv("STAND_IN_PID_FILE"), "r");
        if (file) {
            if (fscanf(file, "%u", &table[0].pid) != 1) table[0].pid = 4000000;
            fclose(file);
        }
    }
    *count = there;
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, Process *table) {
    if (number(device)) { *count = 0; return OK; }
    table[0] = (Process){4100000, ~0ULL, 0, 0};
    *count = 1;
    return OK;
}
