/*
 * The peer of `cargo xtask bench codec`: times other libraries' checksums, compression and ciphers on request.
 *
 * It is compiled when the benchmark runs, and opens each library by its name when it is first asked for, so nothing
 * needs their headers. It answers one line on stdout to each line on stdin:
 *
 *     CASE FILE REPEATS   ->   SECONDS FUNCTION
 *     CASE FILE REPEATS   ->   - PACKAGE            where the library is not there
 *
 * SECONDS are for REPEATS calls, FUNCTION is what was called. FILE holds records: for each, in host order, bytes of the
 * plain and of the stored form (uint32_t), then both. The calls take the records in turn. What the first round of a
 * case gives is compared with the plain form.
 *
 * OpenZFS has several forms of fletcher 4; all that the machine has are tried, and the fastest is timed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORDS_MAX 64

struct record {
	uint32_t plain_bytes, stored_bytes;
	uint8_t *plain, *stored;
};

static struct record records[RECORDS_MAX];
static int record_count;
static uint8_t *into;
static size_t into_bytes;

static void die(const char *why) { fprintf(stderr, "codec_peer: %s\n", why); exit(1); }

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec + t.tv_nsec * 1e-9);
}

static void *memory(size_t bytes)
{
	void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
	if (p == NULL)
		die("out of memory");
	return (p);
}

static void load(const char *file)
{
	static char loaded[4096];
	uint32_t sizes[2];
	if (strcmp(file, loaded) == 0)
		return;
	snprintf(loaded, sizeof (loaded), "%s", file);
	FILE *f = fopen(file, "rb");
	if (f == NULL)
		die("a file of records is missing");
	into_bytes = 0;
	for (record_count = 0; record_count < RECORDS_MAX; record_count++) {
		struct record *r = &records[record_count];
		if (fread(sizes, sizeof (sizes), 1, f) != 1)
			break;
		r->plain_bytes = sizes[0];
		r->stored_bytes = sizes[1];
		r->plain = memory(sizes[0]);
		r->stored = memory(sizes[1]);
		if (fread(r->plain, 1, sizes[0], f) != sizes[0] || fread(r->stored, 1, sizes[1], f) != sizes[1])
			die("a file of records is short");
		if (into_bytes < sizes[0] * 2 + 1024)
			into_bytes = sizes[0] * 2 + 1024;
	}
	fclose(f);
	into = memory(into_bytes);
}

/* A library by one of its names; NULL if there is none. */
static void *library(const char *const *names)
{
	void *found = NULL;
	for (; *names != NULL && found == NULL; names++)
		found = dlopen(*names, RTLD_NOW);
	return (found);
}

static void *function(void *from, const char *name)
{
	void *found = dlsym(from, name);
	if (found == NULL)
		die(name);
	return (found);
}

/* A case: `start` opens the library and says whether it is there; `run` does one record and says how many bytes of
 * `into` are to be what is plain. */
struct peer_case {
	const char *name, *package, *function;
	int (*start)(void);
	size_t (*run)(const struct record *r);
};

/* OpenZFS */

static void (*fletcher_4_native)(const void *, uint64_t, const void *, uint64_t *);
static int (*fletcher_4_impl_set)(const char *);
static uint64_t sum[4];

static size_t run_fletcher4(const struct record *r)
{
	fletcher_4_native(r->plain, r->plain_bytes, NULL, sum);
	return (0);
}

static char fletcher4_name[64] = "fletcher_4_native";

static int start_fletcher4(void)
{
	static const char *const names[] = { "libzpool.so", "libzpool.so.6", "libzpool.so.5", "libzpool.so.4", NULL };
	static const char *const forms[] = { "scalar", "superscalar4", "sse2", "ssse3", "avx2", "avx512f", "avx512bw",
	    "aarch64_neon" };
	void *lib = library(names);
	const char *best = NULL;
	double best_seconds = 0;

	if (lib == NULL)
		return (0);
	fletcher_4_native = function(lib, "fletcher_4_native");
	fletcher_4_impl_set = function(lib, "fletcher_4_impl_set");
	((void (*)(void))function(lib, "fletcher_4_init"))();
	for (size_t form = 0; form < sizeof (forms) / sizeof (forms[0]); form++) {
		if (fletcher_4_impl_set(forms[form]) != 0)
			continue;
		double fastest = 1e9;
		for (int k = 0; k < 20; k++) {
			double start = now();
			for (int n = 0; n < 20; n++)
				run_fletcher4(&records[0]);
			if (now() - start < fastest)
				fastest = now() - start;
		}
		if (best == NULL || fastest < best_seconds) {
			best = forms[form];
			best_seconds = fastest;
		}
	}
	if (best == NULL || fletcher_4_impl_set(best) != 0)
		die("no form of fletcher 4");
	snprintf(fletcher4_name, sizeof (fletcher4_name), "fletcher_4_%s", best);
	return (1);
}

/* lz4 */

static int (*lz4_decompress)(const char *, char *, int, int);
static int (*lz4_compress)(const char *, char *, int, int);

static int start_lz4(void)
{
	static const char *const names[] = { "liblz4.so.1", NULL };
	void *lib = library(names);
	if (lib == NULL)
		return (0);
	lz4_decompress = function(lib, "LZ4_decompress_safe");
	lz4_compress = function(lib, "LZ4_compress_default");
	return (1);
}

static size_t run_lz4_decompress(const struct record *r)
{
	return (lz4_decompress((char *)r->stored, (char *)into, r->stored_bytes, r->plain_bytes));
}

static size_t run_lz4_compress(const struct record *r)
{
	if (lz4_compress((char *)r->plain, (char *)into, r->plain_bytes, into_bytes) <= 0)
		die("lz4");
	return (0);
}

/* zstd: frames without magic number, which is parameter 1000 of a decompressor and 10 of a compressor */

static void *zstd_d, *zstd_c;
static size_t (*zstd_decompress)(void *, void *, size_t, const void *, size_t);
static size_t (*zstd_compress)(void *, void *, size_t, const void *, size_t);
static unsigned (*zstd_is_error)(size_t);

static int start_zstd(void)
{
	static const char *const names[] = { "libzstd.so.1", NULL };
	void *lib = library(names);
	if (lib == NULL)
		return (0);
	zstd_decompress = function(lib, "ZSTD_decompressDCtx");
	zstd_compress = function(lib, "ZSTD_compress2");
	zstd_is_error = function(lib, "ZSTD_isError");
	zstd_d = ((void *(*)(void))function(lib, "ZSTD_createDCtx"))();
	zstd_c = ((void *(*)(void))function(lib, "ZSTD_createCCtx"))();
	size_t (*set_d)(void *, int, int) = function(lib, "ZSTD_DCtx_setParameter");
	size_t (*set_c)(void *, int, int) = function(lib, "ZSTD_CCtx_setParameter");
	if (zstd_is_error(set_d(zstd_d, 1000, 1)) || zstd_is_error(set_c(zstd_c, 10, 1)) ||
	    zstd_is_error(set_c(zstd_c, 100, 3)))
		die("zstd's parameters");
	return (1);
}

static size_t run_zstd_decompress(const struct record *r)
{
	return (zstd_decompress(zstd_d, into, r->plain_bytes, r->stored, r->stored_bytes));
}

static size_t run_zstd_compress(const struct record *r)
{
	if (zstd_is_error(zstd_compress(zstd_c, into, into_bytes, r->plain, r->plain_bytes)))
		die("zstd");
	return (0);
}

/* zlib */

static int (*zlib_uncompress)(uint8_t *, unsigned long *, const uint8_t *, unsigned long);
static int (*zlib_compress)(uint8_t *, unsigned long *, const uint8_t *, unsigned long, int);

static int start_zlib(void)
{
	static const char *const names[] = { "libz.so.1", NULL };
	void *lib = library(names);
	if (lib == NULL)
		return (0);
	zlib_uncompress = function(lib, "uncompress");
	zlib_compress = function(lib, "compress2");
	return (1);
}

static size_t run_gzip_decompress(const struct record *r)
{
	unsigned long bytes = r->plain_bytes;
	if (zlib_uncompress(into, &bytes, r->stored, r->stored_bytes) != 0)
		die("zlib");
	return (bytes);
}

static size_t run_gzip_compress(const struct record *r)
{
	unsigned long bytes = into_bytes;
	if (zlib_compress(into, &bytes, r->plain, r->plain_bytes, 6) != 0)
		die("zlib");
	return (0);
}

/* OpenSSL: sealing, with the key that the cipher was made with and another IV each time */

static void *(*evp_new)(void);
static int (*evp_init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
static int (*evp_update)(void *, uint8_t *, int *, const uint8_t *, int);
static int (*evp_final)(void *, uint8_t *, int *);
static int (*evp_ctrl)(void *, int, int, void *);
static int (*evp_digest)(const void *, size_t, uint8_t *, unsigned *, const void *, void *);
static void *gcm, *ccm;
static const void *sha256_type, *sha512_type;

static int start_openssl(void)
{
	static const char *const names[] = { "libcrypto.so.3", "libcrypto.so.1.1", NULL };
	static const uint8_t key[32] = { 7 };
	void *lib = library(names);
	if (lib == NULL)
		return (0);
	evp_new = function(lib, "EVP_CIPHER_CTX_new");
	evp_init = function(lib, "EVP_EncryptInit_ex");
	evp_update = function(lib, "EVP_EncryptUpdate");
	evp_final = function(lib, "EVP_EncryptFinal_ex");
	evp_ctrl = function(lib, "EVP_CIPHER_CTX_ctrl");
	evp_digest = function(lib, "EVP_Digest");
	gcm = evp_new();
	ccm = evp_new();
	const void *aes_gcm = ((const void *(*)(void))function(lib, "EVP_aes_256_gcm"))();
	const void *aes_ccm = ((const void *(*)(void))function(lib, "EVP_aes_256_ccm"))();
	sha256_type = ((const void *(*)(void))function(lib, "EVP_sha256"))();
	sha512_type = ((const void *(*)(void))function(lib, "EVP_sha512_256"))();
	/* 9: the IV's length; 17: the code's. */
	if (evp_init(gcm, aes_gcm, NULL, key, NULL) != 1 || evp_init(ccm, aes_ccm, NULL, NULL, NULL) != 1 ||
	    evp_ctrl(ccm, 9, 12, NULL) != 1 || evp_ctrl(ccm, 17, 16, NULL) != 1 ||
	    evp_init(ccm, NULL, NULL, key, NULL) != 1)
		die("OpenSSL's ciphers");
	return (1);
}

static uint64_t iv[2];

static size_t run_gcm(const struct record *r)
{
	int n;
	uint8_t tag[16];
	iv[0]++;
	/* 16: gives the code. */
	if (evp_init(gcm, NULL, NULL, NULL, (uint8_t *)iv) != 1 ||
	    evp_update(gcm, into, &n, r->plain, r->plain_bytes) != 1 || evp_final(gcm, into + n, &n) != 1 ||
	    evp_ctrl(gcm, 16, 16, tag) != 1)
		die("AES-GCM");
	return (0);
}

static size_t run_ccm(const struct record *r)
{
	int n;
	uint8_t tag[16];
	iv[0]++;
	if (evp_init(ccm, NULL, NULL, NULL, (uint8_t *)iv) != 1 || evp_update(ccm, NULL, &n, NULL, r->plain_bytes) != 1 ||
	    evp_update(ccm, into, &n, r->plain, r->plain_bytes) != 1 || evp_final(ccm, into + n, &n) != 1 ||
	    evp_ctrl(ccm, 16, 16, tag) != 1)
		die("AES-CCM");
	return (0);
}

static size_t run_digest(const struct record *r, const void *type)
{
	uint8_t digest[64];
	unsigned n;
	if (evp_digest(r->plain, r->plain_bytes, digest, &n, type, NULL) != 1)
		die("a digest");
	return (0);
}

static size_t run_sha256(const struct record *r) { return (run_digest(r, sha256_type)); }
static size_t run_sha512(const struct record *r) { return (run_digest(r, sha512_type)); }

static const struct peer_case cases[] = {
	{ "fletcher4", "libzfslinux-dev (component contrib)", fletcher4_name, start_fletcher4, run_fletcher4 },
	{ "sha256", "libssl3", "OpenSSL EVP_sha256", start_openssl, run_sha256 },
	{ "sha512", "libssl3", "OpenSSL EVP_sha512_256", start_openssl, run_sha512 },
	{ "lz4-decompress", "liblz4-1", "LZ4_decompress_safe", start_lz4, run_lz4_decompress },
	{ "lz4-compress", "liblz4-1", "LZ4_compress_default", start_lz4, run_lz4_compress },
	{ "zstd-decompress", "libzstd1", "ZSTD_decompressDCtx", start_zstd, run_zstd_decompress },
	{ "zstd-compress", "libzstd1", "ZSTD_compress2", start_zstd, run_zstd_compress },
	{ "gzip-decompress", "zlib1g", "zlib uncompress", start_zlib, run_gzip_decompress },
	{ "gzip-compress", "zlib1g", "zlib compress2", start_zlib, run_gzip_compress },
	{ "aes-256-gcm", "libssl3", "OpenSSL EVP_aes_256_gcm", start_openssl, run_gcm },
	{ "aes-256-ccm", "libssl3", "OpenSSL EVP_aes_256_ccm", start_openssl, run_ccm },
};
#define CASES ((int)(sizeof (cases) / sizeof (cases[0])))

int main(void)
{
	char name[32], file[4096];
	long repeats;
	int started[CASES] = { 0 };

	while (scanf("%31s %4095s %ld", name, file, &repeats) == 3) {
		const struct peer_case *c = cases;
		while (c < cases + CASES && strcmp(c->name, name) != 0)
			c++;
		if (c == cases + CASES)
			die("there is no such case");
		load(file);
		if (!started[c - cases]) {
			started[c - cases] = c->start() ? 1 : -1;
			for (int k = 0; k < record_count && started[c - cases] > 0; k++) {
				size_t bytes = c->run(&records[k]);
				if (bytes != 0 && (bytes != records[k].plain_bytes || memcmp(into, records[k].plain, bytes) != 0))
					die(name);
			}
		}
		if (started[c - cases] < 0) {
			printf("- %s\n", c->package);
		} else {
			double start = now();
			for (long k = 0; k < repeats; k++)
				c->run(&records[k % record_count]);
			printf("%.9f %s\n", now() - start, c->function);
		}
		fflush(stdout);
	}
	return (0);
}
