/* An OpenCL driver that goes wrong: what drivers do on boards, on purpose.
 *
 * cc -shared -fPIC -D LOAD=... -D BUILD=... -D LAUNCH=... -o libfake.so fake_driver.c
 *
 * LOAD, BUILD and LAUNCH say what happens when it is asked for its platform, builds a program, and
 * runs a kernel: nothing, abort() or hang(). The names below them are limits of the device. A kernel that runs leaves garbage. It is a GPU, so that
 * it would be chosen before all others. The order of the table is that of the ICD extension,
 * cl_khr_icd; functions that nobody calls here are left out.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LOAD
#define LOAD
#endif
#ifndef BUILD
#define BUILD
#endif
#ifndef LAUNCH
#define LAUNCH
#endif
#ifndef NAME
#define NAME "Fake" /* of the platform */
#endif
#ifndef VERSION
#define VERSION "OpenCL 1.2 Fake"
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef LINES
#define LINES 0 /* of a compiler's log */
#endif
#ifndef UNITS
#define UNITS 1
#endif
#ifndef GROUP
#define GROUP 64
#endif
#ifndef SIDE
#define SIDE 64
#endif
#ifndef ALLOCATION
#define ALLOCATION (1 << 28)
#endif
#ifndef MEMORY
#define MEMORY (1 << 30)
#endif
#ifndef LOCAL
#define LOCAL (1 << 15)
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint;

struct object {
    void **dispatch;
    size_t size; /* of a buffer, in bytes */
    void *data;  /* of a buffer; the text of a program; the name of a kernel */
    cl_uint args; /* of a kernel */
    struct object *program; /* of a kernel */
};

static void *table[180];
static struct object platform = {table}, device = {table}, *the_context;

void hang(void)
{
    for (;;)
        pause();
}

static struct object *make(cl_int *error)
{
    struct object *made = calloc(1, sizeof *made);
    made->dispatch = table;
    if (error)
        *error = 0;
    return made;
}

/* Information: a text, a number, or zeros for all else. */

static cl_int give(const void *from, size_t have, size_t room, void *to, size_t *needed)
{
    if (needed)
        *needed = have;
    if (to && room >= have)
        memcpy(to, from, have);
    return 0;
}

cl_int clGetPlatformInfo(void *id, cl_uint name, size_t room, void *to, size_t *needed)
{
    const char *text = NAME;
    if (name == 0x0900)
        text = "FULL_PROFILE";
    if (name == 0x0901)
        text = VERSION;
    if (name == 0x0904)
        text = "cl_khr_icd";
    return give(text, strlen(text) + 1, room, to, needed);
}

static cl_int device_info(void *id, cl_uint name, size_t room, void *to, size_t *needed)
{
    const char *text = NULL;
    uint64_t number = 0;
    size_t bytes = 4, sides[3] = {64, SIDE, 64};
    void *of = &platform;
    switch (name) {
    case 0x1000: number = 4; bytes = 8; break;          /* TYPE: a GPU */
    case 0x1002: number = UNITS; break;                 /* MAX_COMPUTE_UNITS */
    case 0x1003: number = 3; break;                     /* MAX_WORK_ITEM_DIMENSIONS */
    case 0x1004: number = GROUP; bytes = 8; break;      /* MAX_WORK_GROUP_SIZE */
    case 0x1005: return give(sides, sizeof sides, room, to, needed);
    case 0x1010: number = ALLOCATION; bytes = 8; break; /* MAX_MEM_ALLOC_SIZE */
    case 0x101f: number = MEMORY; bytes = 8; break;     /* GLOBAL_MEM_SIZE */
    case 0x1022: number = 1; break;                     /* LOCAL_MEM_TYPE: local */
    case 0x1023: number = LOCAL; bytes = 8; break;      /* LOCAL_MEM_SIZE */
    case 0x1027: case 0x1028: number = 1; break;        /* AVAILABLE, COMPILER_AVAILABLE */
    case 0x102b: text = "Fake GPU"; break;
    case 0x102c: text = "Fake"; break;
    case 0x102d: text = "1.0"; break;
    case 0x102e: text = "FULL_PROFILE"; break;
    case 0x102f: text = "OpenCL 1.2 Fake"; break;
    case 0x1030: text = ""; break;                      /* EXTENSIONS */
    case 0x1031: return give(&of, sizeof of, room, to, needed);
    case 0x103d: text = "OpenCL C 1.2"; break;
    }
    return text ? give(text, strlen(text) + 1, room, to, needed)
                : give(&number, bytes, room, to, needed);
}

static cl_int some_info(struct object *id, cl_uint name, size_t room, void *to, size_t *needed)
{
    void *of = name == 0x1081 || name == 0x1091 || name == 0x1163 ? (void *)&device : the_context;
    uint64_t number = 1;                                /* how many there are */
    if (name == 0x1100)                                 /* MEM_TYPE: a buffer */
        number = 0x10f0;
    if (name == 0x1102 || name == 0x1191)               /* MEM_SIZE, NUM_ARGS */
        number = name == 0x1102 ? id->size : id->args;
    switch (name) {
    case 0x1194:                                        /* the program of a kernel */
        return give(&id->program, sizeof id->program, room, to, needed);
    case 0x1190:                                        /* the name of a kernel */
        return give(id->data, strlen(id->data) + 1, room, to, needed);
    case 0x1081: case 0x1091: case 0x1163:              /* the device of a context, queue, program */
    case 0x1090: case 0x1106: case 0x1161: case 0x1193: /* the context of a queue, buffer, ... */
        return give(&of, sizeof of, room, to, needed);
    }
    return give(&number, room == 8 ? 8 : 4, room, to, needed);
}

static cl_int work_group_info(void *k, void *d, cl_uint name, size_t room, void *to, size_t *needed)
{
    size_t number = 64, none[3] = {0};
    if (name == 0x11b1) /* COMPILE_WORK_GROUP_SIZE */
        return give(none, sizeof none, room, to, needed);
    return give(&number, sizeof number, room, to, needed);
}

static cl_int build_info(void *p, void *d, cl_uint name, size_t room, void *to, size_t *needed)
{
    uint64_t none = 0;
    if (name == 0x1183 && LINES) { /* BUILD_LOG */
        char *text = calloc(1, LINES + 1);
        return give(memset(text, '\n', LINES), LINES + 1, room, to, needed);
    }
    return give(&none, name == 0x1181 ? 4 : 1, room, to, needed); /* BUILD_STATUS, or a text */
}

static cl_int no_profile(void) { return -7; } /* CL_PROFILING_INFO_NOT_AVAILABLE */

/* Objects. */

static cl_int device_ids(void *p, uint64_t type, cl_uint room, void **to, cl_uint *count)
{
    if (!DEVICES || (!(type & 4) && !(type & 1) && type != 0xffffffff))
        return -1; /* CL_DEVICE_NOT_FOUND */
    if (to && room)
        *to = &device;
    if (count)
        *count = 1;
    return 0;
}

static void *context(void *props, cl_uint n, void *d, void *f, void *user, cl_int *error)
{
    return the_context = make(error);
}

static void *queue(void *c, void *d, uint64_t props, cl_int *error) { return make(error); }

static void *program(void *c, cl_uint n, const char **texts, const size_t *sizes, cl_int *error)
{
    struct object *made = make(error);
    made->data = sizes ? strndup(texts[0], sizes[0]) : strdup(texts[0]);
    return made;
}

static void *kernel(struct object *of, const char *name, cl_int *error)
{
    char head[100];
    snprintf(head, sizeof head, "void %s(", name);
    const char *at = strstr(of->data, head);
    if (!at) {
        *error = -46; /* CL_INVALID_KERNEL_NAME */
        return NULL;
    }
    struct object *made = make(error);
    made->data = strdup(name);
    made->program = of;
    made->args = 1; /* and one more for each comma */
    for (; *at && *at != ')'; at++)
        made->args += *at == ',';
    return made;
}

static void *buffer(void *c, uint64_t flags, size_t size, void *host, cl_int *error)
{
    struct object *made = make(error);
    made->size = size;
    made->data = malloc(size);
    if (host && flags & (1 << 5 | 1 << 3)) /* COPY_HOST_PTR, USE_HOST_PTR */
        memcpy(made->data, host, size);
    return made;
}

static void *sub_buffer(struct object *of, uint64_t flags, cl_uint type, size_t *region, cl_int *error)
{
    struct object *made = make(error);
    made->size = region[1];
    made->data = (char *)of->data + region[0];
    return made;
}

static cl_int build(void *p, cl_uint n, void *devices, const char *options, void *f, void *user)
{
    BUILD;
    return 0;
}

static cl_int done(void) { return 0; }

static cl_int read_buffer(void *q, struct object *from, cl_uint blocking, size_t at, size_t size,
                          void *to, cl_uint n, void *wait, void **event)
{
    memcpy(to, (char *)from->data + at, size);
    if (event)
        *event = make(NULL);
    return 0;
}

static cl_int write_buffer(void *q, struct object *to, cl_uint blocking, size_t at, size_t size,
                           const void *from, cl_uint n, void *wait, void **event)
{
    memcpy((char *)to->data + at, from, size);
    if (event)
        *event = make(NULL);
    return 0;
}

static void *map(void *q, struct object *what, cl_uint blocking, uint64_t flags, size_t at,
                 size_t size, cl_uint n, void *wait, void **event, cl_int *error)
{
    if (event)
        *event = make(NULL);
    *error = 0;
    return (char *)what->data + at;
}

static cl_int unmap(void *q, void *what, void *at, cl_uint n, void *wait, void **event)
{
    if (event)
        *event = make(NULL);
    return 0;
}

static cl_int launch(void *q, void *k, cl_uint dims, size_t *offset, size_t *global, size_t *local,
                     cl_uint n, void *wait, void **event)
{
    LAUNCH;
    if (event)
        *event = make(NULL);
    return 0;
}

cl_int clIcdGetPlatformIDsKHR(cl_uint room, void **to, cl_uint *count)
{
    static const struct { int at; void *function; } have[] = {
        {1, clGetPlatformInfo}, {2, device_ids},  {3, device_info},  {4, context},
        {6, done},  {7, done},  {8, some_info},   {9, queue},        {10, done}, {11, done},
        {12, some_info},        {14, buffer},     {17, done},        {18, done}, {20, some_info},
        {26, program},          {28, done},       {29, done},        {30, build},
        {32, some_info},        {33, build_info}, {34, kernel},      {36, done}, {37, done},
        {38, done}, {39, some_info},              {40, work_group_info},
        {41, done}, {42, some_info},              {43, done},        {44, done},
        {45, no_profile},       {46, done},       {47, done},
        {48, read_buffer},      {49, write_buffer},
        {56, map},  {58, unmap},                  {59, launch},      {82, sub_buffer},
    };
    LOAD;
    for (size_t i = 0; i < sizeof have / sizeof *have; i++)
        table[have[i].at] = have[i].function;
    if (to && room)
        *to = &platform;
    if (count)
        *count = 1;
    return 0;
}

void *clGetExtensionFunctionAddress(const char *name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") ? NULL : (void *)clIcdGetPlatformIDsKHR;
}
