/*
 * The peer of `cargo xtask bench zfs-read`: makes a pool with OpenZFS's own code in user space (libzpool), and reads it.
 *
 *     zfs_read_peer DIR POOL MIB SEED_FILE BLOCK_BYTES
 *
 * makes POOL, a raidz1 of the four files DIR/disk0.raw to disk3.raw, with the volume POOL/v (lz4, blocks of BLOCK_BYTES), fills
 * it with MIB MiB of what SEED_FILE holds, again and again with a counter in each KiB, and exports the pool. Then it
 * answers each line on stdin:
 *
 *     read            imports the pool, and reads the volume in pieces of 1 MiB
 *     scattered N     imports the pool, and reads N blocks here and there, one at a time
 *     again N         reads the same blocks again
 *     close           exports the pool; the first two do so before they begin
 *
 * with SECONDS PROCESSOR_SECONDS for the reading alone. Prototypes stand here so that no headers are
 * needed; they are those of OpenZFS 2.1 and 2.3 but for the marked one.
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
typedef struct cred cred_t;

extern void kernel_init(int mode);
extern char *spa_config_path;
extern void kernel_fini(void);
extern int nvlist_alloc(nvlist_t **, unsigned, int);
extern int nvlist_add_string(nvlist_t *, const char *, const char *);
extern int nvlist_add_uint64(nvlist_t *, const char *, uint64_t);
extern int nvlist_add_nvlist_array(nvlist_t *, const char *, nvlist_t **, unsigned);
extern int spa_create(const char *, nvlist_t *, nvlist_t *, nvlist_t *, void *);
extern int spa_export(const char *, nvlist_t **, boolean_t, boolean_t);
extern int spa_import(char *, nvlist_t *, nvlist_t *, uint64_t);
extern int dsl_prop_set_int(const char *, const char *, int, uint64_t);
extern int dmu_objset_create(const char *, int, uint64_t, void *,
    void (*)(objset_t *, void *, cred_t *, dmu_tx_t *), void *);
extern int dmu_objset_own(const char *, int, boolean_t, boolean_t, const void *, objset_t **);
extern void dmu_objset_disown(objset_t *, boolean_t, const void *);
extern int dmu_object_claim(objset_t *, uint64_t, int, int, int, int, dmu_tx_t *);
extern int zap_create_claim(objset_t *, uint64_t, int, int, int, dmu_tx_t *);
extern int zap_update(objset_t *, uint64_t, const char *, int, uint64_t, const void *, dmu_tx_t *);
extern dmu_tx_t *dmu_tx_create(objset_t *);
extern void dmu_tx_hold_write(dmu_tx_t *, uint64_t, uint64_t, int);
extern int dmu_tx_assign(dmu_tx_t *, uint64_t);
extern void dmu_tx_commit(dmu_tx_t *);
extern void dmu_write(objset_t *, uint64_t, uint64_t, uint64_t, const void *, dmu_tx_t *);
extern int dmu_read(objset_t *, uint64_t, uint64_t, uint64_t, void *, uint32_t);

enum { READ_WRITE = 3, LOCAL = 8, LZ4 = 15, OST_ZVOL = 3, OT_ZVOL = 23, OT_ZVOL_PROP = 24, WAIT = 1 };
enum { PIECE = 1 << 20, DISKS = 4 };

static uint64_t volume_bytes;
static int block_bytes;
static char tag[] = "peer";

static void must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "zfs_read_peer: %s: error %d\n", what, error);
	exit(1);
}

static void make_volume(objset_t *os, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	(void) arg; (void) cr;
	must(dmu_object_claim(os, 1, OT_ZVOL, block_bytes, 0, 0, tx), "object 1");
	must(zap_create_claim(os, 2, OT_ZVOL_PROP, 0, 0, tx), "object 2");
	must(zap_update(os, 2, "size", 8, 1, &volume_bytes, tx), "size");
}

static nvlist_t *tree(const char *dir)
{
	nvlist_t *disks[DISKS], *raidz, *root;
	for (int n = 0; n < DISKS; n++) {
		char path[4096];
		snprintf(path, sizeof (path), "%s/disk%d.raw", dir, n);
		/* Data, a third of it parity, and room. */
		int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
		if (file < 0 || ftruncate(file, (off_t)(volume_bytes / 2 + (256 << 20))) != 0)
			must(1, path);
		close(file);
		nvlist_alloc(&disks[n], 1, 0);
		nvlist_add_string(disks[n], "type", "file");
		nvlist_add_string(disks[n], "path", path);
		nvlist_add_uint64(disks[n], "ashift", 12);
	}
	nvlist_alloc(&raidz, 1, 0);
	nvlist_add_string(raidz, "type", "raidz");
	nvlist_add_uint64(raidz, "nparity", 1);
	nvlist_add_uint64(raidz, "is_log", 0);
	nvlist_add_nvlist_array(raidz, "children", disks, DISKS);
	nvlist_alloc(&root, 1, 0);
	nvlist_add_string(root, "type", "root");
	nvlist_add_nvlist_array(root, "children", &raidz, 1);
	return (root);
}

static void fill(const char *name, const char *seed_file)
{
	static unsigned char seed[PIECE], piece[PIECE];
	objset_t *os;
	FILE *f = fopen(seed_file, "rb");
	if (f == NULL || fread(seed, 1, PIECE, f) != PIECE)
		must(1, seed_file);
	fclose(f);
	must(dmu_objset_own(name, OST_ZVOL, 0, 1, tag, &os), "opening the volume");
	for (uint64_t at = 0; at < volume_bytes; at += PIECE) {
		memcpy(piece, seed, PIECE);
		for (int k = 0; k < PIECE / 1024; k++) {
			uint64_t counter = at / 1024 + k;
			memcpy(piece + k * 1024, &counter, sizeof (counter));
		}
		dmu_tx_t *tx = dmu_tx_create(os);
		dmu_tx_hold_write(tx, 1, at, PIECE);
		must(dmu_tx_assign(tx, WAIT), "a transaction");
		dmu_write(os, 1, at, PIECE, piece, tx);
		dmu_tx_commit(tx);
	}
	dmu_objset_disown(os, 1, tag);
}

static unsigned char piece[PIECE];

static void stream(objset_t *os)
{
	for (uint64_t at = 0; at < volume_bytes; at += PIECE)
		must(dmu_read(os, 1, at, PIECE, piece, 0), "reading");
}

/* Blocks here and there, the same ones each time. */
static void scattered(objset_t *os, unsigned long count)
{
	uint64_t state = 1, blocks = volume_bytes / block_bytes;
	while (count-- > 0) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		uint64_t at = (state >> 33) % blocks * block_bytes;
		must(dmu_read(os, 1, at, block_bytes, piece, 1), "reading");
	}
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
	char name[256], line[64];
	nvlist_t *props, *config = NULL;
	if (argc != 6)
		must(2, "usage: zfs_read_peer DIR POOL MIB SEED_FILE BLOCK_BYTES");
	char *pool = argv[2];
	volume_bytes = strtoull(argv[3], NULL, 10) << 20;
	block_bytes = atoi(argv[5]);
	snprintf(name, sizeof (name), "%s/v", pool);
	/* The pools of this host are none of our business, nor is ours one of its. */
	spa_config_path = "/nonexistent";
	kernel_init(READ_WRITE);
	nvlist_alloc(&props, 1, 0);
	nvlist_add_uint64(props, "feature@lz4_compress", 0);
	nvlist_add_string(props, "cachefile", "none");
	must(spa_create(pool, tree(argv[1]), props, NULL, NULL), "creating the pool");
	must(dsl_prop_set_int(pool, "compression", LOCAL, LZ4), "compression");
	must(dmu_objset_create(name, OST_ZVOL, 0, NULL, make_volume, NULL), "creating the volume");
	fill(name, argv[4]);
	must(spa_export(pool, &config, 1, 0), "exporting");
	printf("ready\n");
	fflush(stdout);
	objset_t *os = NULL;
	while (fgets(line, sizeof (line), stdin) != NULL) {
		unsigned long count = 0;
		int cold = strncmp(line, "again", 5) != 0;
		if (cold && os != NULL) {
			dmu_objset_disown(os, 1, tag);
			must(spa_export(pool, &config, 1, 0), "exporting");
			os = NULL;
		}
		if (strncmp(line, "close", 5) == 0) {
			printf("0 0\n");
			fflush(stdout);
			continue;
		}
		if (os == NULL) {
			must(spa_import(pool, config, NULL, 0), "importing");
			must(dmu_objset_own(name, OST_ZVOL, 1, 1, tag, &os), "opening the volume");
		}
		double t = wall(), p = processor();
		if (sscanf(line, "%*s %lu", &count) == 1)
			scattered(os, count);
		else
			stream(os);
		printf("%.6f %.6f\n", wall() - t, processor() - p);
		fflush(stdout);
	}
	return (0);
}
