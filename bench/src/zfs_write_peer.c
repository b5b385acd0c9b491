/*
 * The peer of `cargo xtask bench zfs-write`: makes pools with OpenZFS's own code in user space (libzpool), and writes to them.
 *
 *     zfs_write_peer DIR POOL DISK_MIB
 *
 * answers each line on stdin:
 *
 *     make KIND DISKS BLOCK_BYTES MIB LZ4   makes POOL of so many files in DIR: a mirror (KIND 0) or a raidz of parity KIND, with
 *                                           the volume POOL/v of MIB MiB, with lz4 or without compression; what was there is gone
 *     stream COUNT                          writes so many blocks in order from the start, and waits until they are in the pool
 *     scattered COUNT                       the same here and there
 *     durable COUNT                         the same here and there, each in the intent log before the next
 *
 * with SECONDS PROCESSOR_SECONDS. Prototypes stand here so that no headers are needed; they are those of OpenZFS 2.1.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef int boolean_t;
typedef struct nvlist nvlist_t;
typedef struct objset objset_t;
typedef struct dmu_tx dmu_tx_t;
typedef struct dsl_pool dsl_pool_t;
typedef struct zilog zilog_t;
typedef struct itx itx_t;
typedef struct cred cred_t;

extern void kernel_init(int mode);
extern char *spa_config_path;
extern int nvlist_alloc(nvlist_t **, unsigned, int);
extern int nvlist_add_string(nvlist_t *, const char *, const char *);
extern int nvlist_add_uint64(nvlist_t *, const char *, uint64_t);
extern int nvlist_add_nvlist_array(nvlist_t *, const char *, nvlist_t **, unsigned);
extern int spa_create(const char *, nvlist_t *, nvlist_t *, nvlist_t *, void *);
extern int spa_destroy(const char *);
extern int dsl_prop_set_int(const char *, const char *, int, uint64_t);
extern int dmu_objset_create(const char *, int, uint64_t, void *,
    void (*)(objset_t *, void *, cred_t *, dmu_tx_t *), void *);
extern int dmu_objset_own(const char *, int, boolean_t, boolean_t, const void *, objset_t **);
extern void dmu_objset_disown(objset_t *, boolean_t, const void *);
extern dsl_pool_t *dmu_objset_pool(objset_t *);
extern int dmu_object_claim(objset_t *, uint64_t, int, int, int, int, dmu_tx_t *);
extern int zap_create_claim(objset_t *, uint64_t, int, int, int, dmu_tx_t *);
extern int zap_update(objset_t *, uint64_t, const char *, int, uint64_t, const void *, dmu_tx_t *);
extern dmu_tx_t *dmu_tx_create(objset_t *);
extern void dmu_tx_hold_write(dmu_tx_t *, uint64_t, uint64_t, int);
extern int dmu_tx_assign(dmu_tx_t *, uint64_t);
extern void dmu_tx_commit(dmu_tx_t *);
extern void dmu_write(objset_t *, uint64_t, uint64_t, uint64_t, const void *, dmu_tx_t *);
extern void txg_wait_synced(dsl_pool_t *, uint64_t);
extern zilog_t *zil_open(objset_t *, void *);
extern void zil_close(zilog_t *);
extern itx_t *zil_itx_create(uint64_t, size_t);
extern void zil_itx_assign(zilog_t *, itx_t *, dmu_tx_t *);
extern void zil_commit(zilog_t *, uint64_t);

enum { READ_WRITE = 3, LOCAL = 8, LZ4 = 15, OFF = 2, OST_ZVOL = 3, OT_ZVOL = 23, OT_ZVOL_PROP = 24, WAIT = 1 };
enum { PIECE = 1 << 20, DISKS_MAX = 16, TX_WRITE = 9, WR_COPIED = 1 };

/* What a record of a write begins with. */
struct write_record {
	uint64_t type, bytes, txg, sequence, object, offset, length, block_offset, pointer[16];
};

static uint64_t volume_bytes, disk_bytes;
static int block_bytes;
static char tag[] = "peer", volume[256];
static const char *dir, *pool;
static unsigned char source[PIECE];
static objset_t *os;
static zilog_t *zilog;

static void must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "zfs_write_peer: %s: error %d\n", what, error);
	exit(1);
}

static void make_volume(objset_t *objset, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	(void) arg; (void) cr;
	must(dmu_object_claim(objset, 1, OT_ZVOL, block_bytes, 0, 0, tx), "object 1");
	must(zap_create_claim(objset, 2, OT_ZVOL_PROP, 0, 0, tx), "object 2");
	must(zap_update(objset, 2, "size", 8, 1, &volume_bytes, tx), "size");
}

static nvlist_t *tree(int parity, int count)
{
	nvlist_t *disks[DISKS_MAX], *top, *root;
	for (int n = 0; n < count; n++) {
		char path[4096];
		snprintf(path, sizeof (path), "%s/disk%d.raw", dir, n);
		/* Written over, so that it has its memory already, as a disk has its sectors. */
		int file = open(path, O_CREAT | O_RDWR, 0600);
		if (file < 0 || ftruncate(file, (off_t)disk_bytes) != 0)
			must(1, path);
		close(file);
		nvlist_alloc(&disks[n], 1, 0);
		nvlist_add_string(disks[n], "type", "file");
		nvlist_add_string(disks[n], "path", path);
		nvlist_add_uint64(disks[n], "ashift", 12);
	}
	nvlist_alloc(&top, 1, 0);
	nvlist_add_string(top, "type", parity > 0 ? "raidz" : "mirror");
	if (parity > 0)
		nvlist_add_uint64(top, "nparity", parity);
	nvlist_add_uint64(top, "is_log", 0);
	nvlist_add_nvlist_array(top, "children", disks, count);
	nvlist_alloc(&root, 1, 0);
	nvlist_add_string(root, "type", "root");
	nvlist_add_nvlist_array(root, "children", &top, 1);
	return (root);
}

static void unmake(void)
{
	if (os == NULL)
		return;
	zil_close(zilog);
	dmu_objset_disown(os, 1, tag);
	os = NULL;
	must(spa_destroy(pool), "destroying the pool");
}

/* The log copies all there is: nobody asks for more. */
static int no_data(void *arg, uint64_t arg2, void *lr, char *buf, void *lwb, void *zio)
{
	(void) arg; (void) arg2; (void) lr; (void) buf; (void) lwb; (void) zio;
	return (1);
}

static void make(int parity, int count, int lz4)
{
	nvlist_t *props;
	unmake();
	nvlist_alloc(&props, 1, 0);
	nvlist_add_uint64(props, "feature@lz4_compress", 0);
	nvlist_add_string(props, "cachefile", "none");
	must(spa_create(pool, tree(parity, count), props, NULL, NULL), "creating the pool");
	must(dsl_prop_set_int(pool, "compression", LOCAL, lz4 ? LZ4 : OFF), "compression");
	must(dmu_objset_create(volume, OST_ZVOL, 0, NULL, make_volume, NULL), "creating the volume");
	must(dmu_objset_own(volume, OST_ZVOL, 0, 1, tag, &os), "opening the volume");
	zilog = zil_open(os, no_data);
}

/* A record of a write with its bytes, for the log. */
static void log_write(uint64_t at, dmu_tx_t *tx)
{
	size_t bytes = sizeof (struct write_record) + block_bytes;
	itx_t *itx = zil_itx_create(TX_WRITE, bytes);
	/* What stands before the record differs between versions; the record begins with its type and length. */
	uint64_t *word = (uint64_t *)itx;
	while (word[0] != TX_WRITE || word[1] != bytes)
		word++;
	struct write_record *record = (struct write_record *)word;
	/* How the bytes are had stands behind a list's node and a pointer, in all versions. */
	((int *)itx)[6] = WR_COPIED;
	record->object = 1;
	record->offset = at;
	record->length = block_bytes;
	record->block_offset = 0;
	memset(record->pointer, 0, sizeof (record->pointer));
	memcpy(record + 1, source, block_bytes);
	zil_itx_assign(zilog, itx, tx);
}

static void write_block(uint64_t at, int durable)
{
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_write(tx, 1, at, block_bytes);
	must(dmu_tx_assign(tx, WAIT), "a transaction");
	memcpy(source, &at, sizeof (at));
	dmu_write(os, 1, at, block_bytes, source, tx);
	if (durable)
		log_write(at, tx);
	dmu_tx_commit(tx);
	if (durable)
		zil_commit(zilog, 1);
}

static void write_blocks(unsigned long count, int scattered, int durable)
{
	uint64_t state = 1, blocks = volume_bytes / block_bytes;
	for (unsigned long n = 0; n < count; n++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t block = scattered ? state >> 33 : n;
		write_block(block % blocks * block_bytes, durable);
	}
	txg_wait_synced(dmu_objset_pool(os), 0);
}

static double wall(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec + t.tv_nsec * 1e-9);
}

static double processor(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	    (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
}

int main(int argc, char **argv)
{
	char line[128], word[16];
	if (argc != 4)
		must(2, "usage: zfs_write_peer DIR POOL DISK_MIB");
	dir = argv[1];
	pool = argv[2];
	disk_bytes = strtoull(argv[3], NULL, 10) << 20;
	snprintf(volume, sizeof (volume), "%s/v", pool);
	/* Bytes that don't compress. */
	uint64_t state = 1;
	for (int n = 0; n < PIECE; n++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		source[n] = state >> 56;
	}
	/* The pools of this host are none of our business, nor is ours one of its. */
	spa_config_path = "/nonexistent";
	kernel_init(READ_WRITE);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof (line), stdin) != NULL) {
		unsigned long a = 0, b = 0, c = 0, d = 0, e = 0;
		sscanf(line, "%15s %lu %lu %lu %lu %lu", word, &a, &b, &c, &d, &e);
		double t = wall(), p = processor();
		if (strcmp(word, "make") == 0) {
			block_bytes = c;
			volume_bytes = d << 20;
			make(a, b, e);
		} else {
			write_blocks(a, strcmp(word, "stream") != 0, strcmp(word, "durable") == 0);
		}
		printf("%.6f %.6f\n", wall() - t, processor() - p);
		fflush(stdout);
	}
	unmake();
	return (0);
}
