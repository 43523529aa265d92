/* Speaks the part of the NVML C interface that the runtime uses, for two made-up devices.
 * Device 0 is plain; device 1 runs in MIG mode and has more processes than fit at first.
 * STAND_IN_FAIL makes the start fail, STAND_IN_OLD leaves out what older drivers don't have.
 * STAND_IN_PID, or the number in the file STAND_IN_PID_FILE, is who computes on device 0;
 * STAND_IN_BUSY is how busy, in percent.
 * STAND_IN_SLICES is how many MIG slices device 1 has; STAND_IN_UNIFIED leaves devices without
 * memory of their own; STAND_IN_NVLINK joins the devices.
 * STAND_IN_USED is what the process on device 0 holds, in MiB. STAND_IN_PROCESSES names a file with lines
 * `INDEX PID MIB` instead, of which those of live processes count, all lines of one together.
 * STAND_IN_GPUS="NAME,GIB,COUNT" makes plain devices of one kind instead, which nobody uses.
 * STAND_IN_HEALTH names a file with lines `INDEX WHAT NUMBER`: lost, gone, ecc, rows, recovery, xid;
 * `0 hang 1` has the start never return, `0 crash 1` kills the process.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK 0
#define UNKNOWN_ERROR 999
#define DRIVER_NOT_LOADED 9
#define NOT_SUPPORTED 3
#define INVALID_ARGUMENT 2
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define GIB (1024ULL * 1024 * 1024)

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned long long total, free, used; } Memory1;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } Process;

#define GPU_IS_LOST 15
#define TIMEOUT 10
typedef struct { void *device; unsigned long long type, data; unsigned gpu, compute; } Event;
typedef struct {
    unsigned id, scope; long long at, latency; unsigned type, status; unsigned long long value;
} Field;
typedef struct { char legacy[16]; unsigned numbers[5]; char id[32]; } Pci;

static int devices[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static int slices[8] = {100, 101, 102, 103, 104, 105, 106, 107};
static int is_open = 0;
static long xids_told = 0;

static char kind[64];
static int gib, made;
static int is_plain(void) {
    const char *said = getenv("STAND_IN_GPUS");
    return said && sscanf(said, "%63[^,],%d,%d", kind, &gib, &made) == 3;
}
/* What the file says of a device; -1 if nothing. Of several lines the one after `skip` others. */
static long long health(int index, const char *what, long skip) {
    const char *path = getenv("STAND_IN_HEALTH");
    FILE *file = path ? fopen(path, "r") : NULL;
    long long number, found = -1;
    char word[32];
    int at;
    if (!file) return -1;
    while (fscanf(file, "%d %31s %lld", &at, word, &number) == 3)
        if (at == index && !strcmp(word, what) && skip-- == 0) found = number;
    fclose(file);
    return found;
}

/* The processes on a device that the file tells of, each with all that its lines say. */
static unsigned told_processes(int index, Process *table, unsigned room) {
    FILE *file = fopen(getenv("STAND_IN_PROCESSES"), "r");
    unsigned pid, there = 0, i;
    long long mib;
    int at;
    if (!file) return 0;
    while (fscanf(file, "%d %u %lld", &at, &pid, &mib) == 3) {
        if (at != index || kill((int)pid, 0)) continue;
        for (i = 0; i < there && table[i].pid != pid; i++) {}
        if (i == there && there == room) continue;
        if (i == there) table[there++] = (Process){pid, 0, 0, 0};
        table[i].used += (unsigned long long)mib << 20;
    }
    fclose(file);
    return there;
}
static unsigned long long told_used(int index) {
    Process table[64];
    unsigned long long used = 0;
    unsigned there = getenv("STAND_IN_PROCESSES") ? told_processes(index, table, 64) : 0;
    while (there) used += table[--there].used;
    return used;
}

int nvmlInit_v2(void) {
    if (health(0, "hang", 0) > 0) for (;;) pause();
    if (health(0, "crash", 0) > 0) abort();
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
    *count = is_plain() ? (unsigned)made : 3;
    if (health(0, "gone", 0) > 0) *count -= 1;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= (is_plain() ? (unsigned)made : 2)) return UNKNOWN_ERROR;
    if (health((int)index, "lost", 0) > 0) return GPU_IS_LOST;
    *device = &devices[index];
    return OK;
}
static int number(void *device) { return *(int *)device; }
int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    if (number(device) >= 100) snprintf(text, length, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    else snprintf(text, length, "%s", is_plain() ? kind : number(device) ? "Test H100" : "Test RTX");
    return OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    if (number(device) >= 100) snprintf(text, length, "MIG-000%d", number(device) - 100);
    else snprintf(text, length, "GPU-000%d", number(device));
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory2 *memory) {
    if (getenv("STAND_IN_OLD") || getenv("STAND_IN_UNIFIED")) return NOT_SUPPORTED;
    if (memory->version != (sizeof(Memory2) | 2 << 24)) return INVALID_ARGUMENT;
    if (number(device) >= 100) {
        *memory = (Memory2){memory->version, 10 * GIB, GIB / 4, 10 * GIB - GIB / 4, 0};
        return OK;
    }
    memory->total = (is_plain() ? gib : 24) * GIB;
    memory->reserved = GIB / 2;
    memory->used = is_plain() ? told_used(number(device)) : (number(device) + 1) * GIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory1 *memory) {
    if (getenv("STAND_IN_UNIFIED")) return NOT_SUPPORTED;
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
    if (is_plain() || !number(device)) return NOT_SUPPORTED;
    *current = *pending = 1;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) {
    *count = number(device) == 1 ? 7 : 0;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice) {
    const char *said = getenv("STAND_IN_SLICES");
    if (number(device) != 1 || !said || index >= (unsigned)atoi(said)) return NOT_FOUND;
    *slice = &slices[index];
    return OK;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active) {
    (void)device;
    if (!getenv("STAND_IN_NVLINK") || link > 3) return NOT_SUPPORTED;
    *active = link < 2;
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
    if (number(device) >= 100) { *count = 0; return OK; }
    const char *told = getenv("STAND_IN_PID_FILE");
    if (is_plain() && getenv("STAND_IN_PROCESSES")) {
        *count = told_processes(number(device), table, *count);
        return OK;
    }
    if (is_plain()) there = 0;
    if (told && !number(device)) there = !access(told, R_OK);
    if (*count < there) { *count = there; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < there; i++) {
        table[i] = (Process){4000000 + i, GIB / 4, 0, 0};
    }
    if (!number(device) && there && getenv("STAND_IN_USED")) {
        table[0].used = (unsigned long long)atoll(getenv("STAND_IN_USED")) << 20;
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
    if (is_plain() || number(device)) { *count = 0; return OK; }
    table[0] = (Process){4100000, ~0ULL, 0, 0};
    *count = 1;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(
    void *device, unsigned which, unsigned since, unsigned long long *errors) {
    long long told = health(number(device), "ecc", 0);
    if (which != 1 || since != 0) return INVALID_ARGUMENT;
    if (told < 0) return NOT_SUPPORTED;
    *errors = (unsigned long long)told;
    return OK;
}
int nvmlDeviceGetRemappedRows(
    void *device, unsigned *corrected, unsigned *not, unsigned *pending, unsigned *failed) {
    long long told = health(number(device), "rows", 0);
    if (told < 0) return NOT_SUPPORTED;
    *corrected = *not = *pending = 0;
    *failed = (unsigned)told;
    return OK;
}
int nvmlDeviceGetFieldValues(void *device, int count, Field *fields) {
    long long told = health(number(device), "recovery", 0);
    if (count != 1 || fields->id != 230) return INVALID_ARGUMENT;
    fields->status = told < 0 ? NOT_SUPPORTED : OK;
    fields->value = told < 0 ? 0 : (unsigned long long)told;
    return OK;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", 0x3B + number(device));
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, Pci *pci) {
    (void)link;
    memset(pci, 0, sizeof *pci);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", 0x3B + !number(device));
    return OK;
}
int nvmlEventSetCreate(void **events) {
    if (getenv("STAND_IN_OLD")) return NOT_SUPPORTED;
    *events = &xids_told;
    return OK;
}
int nvmlEventSetFree(void *events) { (void)events; return OK; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long which, void *events) {
    (void)device;
    return events == &xids_told && which == 8 ? OK : NOT_SUPPORTED;
}
int nvmlEventSetWait_v2(void *events, Event *event, unsigned wait_ms) {
    long long told = health(0, "xid", xids_told);
    (void)wait_ms;
    if (events != &xids_told || told < 0) return TIMEOUT;
    xids_told++;
    *event = (Event){&devices[0], 8, (unsigned long long)told, ~0U, ~0U};
    return OK;
}
