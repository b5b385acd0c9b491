/*
 * A peer of `cargo xtask bench parity`: times another library's parity functions on request.
 *
 * It is compiled when the benchmark runs, once with -DPEER_ISAL -lisal (Debian: libisal-dev) and once
 * with -DPEER_OPENZFS -lzpool (Debian: libzfslinux-dev, in contrib), so nothing needs these libraries to
 * build. Each is a process of its own, which answers one line on stdout to each line on stdin:
 *
 *     CASE MEMBER_BYTES REPEATS   ->   SECONDS FUNCTION
 *
 * SECONDS are for REPEATS calls, FUNCTION is what was called. CASE is one of the names in `cases`.
 * There are DATA data members and up to three parity members, each MEMBER_BYTES long, one after the
 * other in one page-aligned piece of memory, as the benchmark lays out its own. rec-* rebuilds data
 * members 0, 0-1 or 0-2 from the named parities. The first call for a case and size is checked against
 * the definition of parity and, where the library has several implementations and no way to
 * ask for its best, tries them all and keeps the fastest.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DATA 8
#define PARITY 3
#define MEMBERS (DATA + PARITY)
#define PAGE 4096

struct parity_case {
	const char *name;
	int lost;		/* data members that are rebuilt; 0: parity is made */
	int parities;		/* how many parities are made or used */
	int use[PARITY];	/* which: 0 P, 1 Q, 2 R */
};

static const struct parity_case cases[] = {
	{ "gen-p", 0, 1, { 0 } },
	{ "gen-pq", 0, 2, { 0, 1 } },
	{ "gen-pqr", 0, 3, { 0, 1, 2 } },
	{ "rec-p", 1, 1, { 0 } },
	{ "rec-q", 1, 1, { 1 } },
	{ "rec-r", 1, 1, { 2 } },
	{ "rec-pq", 2, 2, { 0, 1 } },
	{ "rec-pr", 2, 2, { 0, 2 } },
	{ "rec-qr", 2, 2, { 1, 2 } },
	{ "rec-pqr", 3, 3, { 0, 1, 2 } },
};
#define CASES ((int)(sizeof (cases) / sizeof (cases[0])))

/* The stripe of the size that is being timed: what is worked on, and what it should be. */
static size_t member_bytes;
static uint8_t *work, *truth;

static uint8_t *member(uint8_t *base, int i) { return (base + i * member_bytes); }

static void die(const char *why) { fprintf(stderr, "parity_peer: %s\n", why); exit(1); }

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec + t.tv_nsec * 1e-9);
}

static uint8_t twice(uint8_t a) { return ((a << 1) ^ (a & 0x80 ? 0x1d : 0)); }

/*
 * What the library is to provide. `peer_power(i)` says which power of the generator data member i has in
 * Q (and, squared, in R). `peer_start` is called once. `peer_prepare` is called for a new stripe; `peer_choices` is the number of
 * implementations, and `peer_run` runs one on a case.
 */
static int peer_power(int i);
static void peer_start(void);
static void peer_prepare(void);
static int peer_choices(void);
static int peer_supports(int choice);
static const char *peer_name(const struct parity_case *c, int choice);
static void peer_run(const struct parity_case *c, int choice);

#ifdef PEER_ISAL
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

static void peer_start(void) { }

/* One implementation to choose from: the library picks the processor's best by itself. */
static int peer_power(int i) { return (i); }
static int peer_choices(void) { return (1); }
static int peer_supports(int choice) { (void) choice; return (1); }

static uint8_t tables[CASES][32 * DATA * PARITY];

static uint8_t coefficient(int parity, int i)
{
	uint8_t c = 1;
	for (int k = 0; k < parity * i; k++)
		c = gf_mul(c, 2);
	return (c);
}

static void peer_prepare(void)
{
	for (int n = 0; n < CASES; n++) {
		const struct parity_case *c = &cases[n];
		unsigned char rows[DATA * PARITY];
		if (c->lost == 0) {
			for (int p = 0; p < c->parities; p++)
				for (int i = 0; i < DATA; i++)
					rows[p * DATA + i] = coefficient(p, i);
			ec_init_tables(DATA, c->parities, rows, tables[n]);
			continue;
		}
		/* The survivors as sums of the data; inverted, the data as sums of the survivors. */
		unsigned char survivors[DATA * DATA] = { 0 }, inverse[DATA * DATA];
		for (int i = c->lost; i < DATA; i++)
			survivors[(i - c->lost) * DATA + i] = 1;
		for (int k = 0; k < c->parities; k++)
			for (int i = 0; i < DATA; i++)
				survivors[(DATA - c->lost + k) * DATA + i] = coefficient(c->use[k], i);
		if (gf_invert_matrix(survivors, inverse, DATA) != 0)
			die("the survivors do not determine the data");
		memcpy(rows, inverse, c->lost * DATA);
		ec_init_tables(DATA, c->lost, rows, tables[n]);
	}
}

static const char *peer_name(const struct parity_case *c, int choice)
{
	(void) choice;
	if (c->parities == 1 && c->use[0] == 0)
		return ("xor_gen");
	return (strcmp(c->name, "gen-pq") == 0 ? "pq_gen" : "ec_encode_data");
}

static void peer_run(const struct parity_case *c, int choice)
{
	void *array[DATA + PARITY];
	unsigned char *to[PARITY];
	(void) choice;
	if (c->lost == 0) {
		for (int i = 0; i < DATA + c->parities; i++)
			array[i] = member(work, i);
		if (c->parities == 1)
			xor_gen(DATA + 1, member_bytes, array);
		else if (c->parities == 2)
			pq_gen(DATA + 2, member_bytes, array);
		else
			ec_encode_data(member_bytes, DATA, PARITY, tables[c - cases],
			    (unsigned char **)array, (unsigned char **)array + DATA);
		return;
	}
	for (int i = c->lost; i < DATA; i++)
		array[i - c->lost] = member(work, i);
	for (int k = 0; k < c->parities; k++)
		array[DATA - c->lost + k] = member(work, DATA + c->use[k]);
	for (int i = 0; i < c->lost; i++)
		to[i] = member(work, i);
	if (c->parities == 1 && c->use[0] == 0) {
		array[DATA] = to[0];
		xor_gen(DATA + 1, member_bytes, array);
	} else {
		ec_encode_data(member_bytes, DATA, c->lost, tables[c - cases],
		    (unsigned char **)array, to);
	}
}
#endif

#ifdef PEER_OPENZFS
#include <sys/zfs_context.h>
#include <sys/vdev.h>
#include <sys/abd.h>
#include <sys/vdev_raidz.h>
#include <sys/vdev_raidz_impl.h>

/*
 * OpenZFS's own functions, called as vdev_raidz_math_generate and _reconstruct call them. Weak, because
 * which of them there are depends on the processor family.
 */
#define	IMPLEMENTATION(name)	\
	extern const raidz_impl_ops_t vdev_raidz_ ## name ## _impl __attribute__((weak))
IMPLEMENTATION(sse2);
IMPLEMENTATION(ssse3);
IMPLEMENTATION(avx2);
IMPLEMENTATION(avx512f);
IMPLEMENTATION(avx512bw);
IMPLEMENTATION(aarch64_neon);
IMPLEMENTATION(aarch64_neonx2);

static const raidz_impl_ops_t *const implementations[] = {
	&vdev_raidz_scalar_impl, &vdev_raidz_sse2_impl, &vdev_raidz_ssse3_impl,
	&vdev_raidz_avx2_impl, &vdev_raidz_avx512f_impl, &vdev_raidz_avx512bw_impl,
	&vdev_raidz_aarch64_neon_impl, &vdev_raidz_aarch64_neonx2_impl,
};

static void peer_start(void) { abd_init(); }

/* One row for each number of parities, over the same memory. */
static raidz_row_t *made[PARITY + 1];

/* The first column has the highest power. */
static int peer_power(int i) { return (DATA - 1 - i); }
static int peer_choices(void) { return (sizeof (implementations) / sizeof (implementations[0])); }

static int peer_supports(int choice)
{
	const raidz_impl_ops_t *ops = implementations[choice];
	if (ops == NULL || !ops->is_supported())
		return (0);
	if (ops->init != NULL)
		ops->init();
	return (1);
}

static void peer_prepare(void)
{
	for (int parities = 1; parities <= PARITY; parities++) {
		int columns = DATA + parities;
		raidz_row_t *row = calloc(1, sizeof (*row) + columns * sizeof (raidz_col_t));
		row->rr_cols = row->rr_scols = columns;
		row->rr_firstdatacol = parities;
		for (int i = 0; i < columns; i++) {
			int from = i < parities ? DATA + i : i - parities;
			row->rr_col[i].rc_size = member_bytes;
			row->rr_col[i].rc_abd =
			    abd_get_from_buf(member(work, from), member_bytes);
		}
		made[parities] = row;
	}
}

static const char *peer_name(const struct parity_case *c, int choice)
{
	static char name[64];
	(void) c;
	snprintf(name, sizeof (name), "%s", implementations[choice]->name);
	return (name);
}

static void peer_run(const struct parity_case *c, int choice)
{
	const raidz_impl_ops_t *ops = implementations[choice];
	if (c->lost == 0) {
		ops->gen[c->parities - 1](made[c->parities]);
	} else {
		const int lost[PARITY] = { PARITY, PARITY + 1, PARITY + 2 };
		ops->rec[c - cases - 3](made[PARITY], lost);
	}
}
#endif

/* Makes a stripe of this size with its true parity, anew. */
static void prepare(size_t bytes)
{
	uint32_t random = 1;

	/* What an earlier size used stays allocated: there are two sizes. */
	member_bytes = bytes;
	work = aligned_alloc(PAGE, MEMBERS * bytes);
	truth = aligned_alloc(PAGE, MEMBERS * bytes);
	if (work == NULL || truth == NULL)
		die("out of memory");
	for (size_t k = 0; k < DATA * bytes; k++) {
		random = random * 1664525 + 1013904223;
		truth[k] = random >> 24;
	}
	memset(member(truth, DATA), 0, PARITY * bytes);
	for (int power = DATA - 1; power >= 0; power--) {
		int i = 0;
		while (peer_power(i) != power)
			i++;
		uint8_t *d = member(truth, i), *p = member(truth, DATA);
		uint8_t *q = p + bytes, *r = q + bytes;
		for (size_t k = 0; k < bytes; k++) {
			p[k] ^= d[k];
			q[k] = twice(q[k]) ^ d[k];
			r[k] = twice(twice(r[k])) ^ d[k];
		}
	}
	memcpy(work, truth, MEMBERS * bytes);
	peer_prepare();
}

static double timed(const struct parity_case *c, int choice, long repeats)
{
	double start = now();
	for (long k = 0; k < repeats; k++)
		peer_run(c, choice);
	return (now() - start);
}

/* Checks every implementation on a case, and returns the fastest. */
static int choose(const struct parity_case *c)
{
	int best = -1;
	double best_seconds = 0;

	for (int choice = 0; choice < peer_choices(); choice++) {
		if (!peer_supports(choice))
			continue;
		/* Spoil what is to be made, make it, and look. */
		if (c->lost == 0)
			memset(member(work, DATA), 0x5a, c->parities * member_bytes);
		else
			memset(work, 0x5a, c->lost * member_bytes);
		peer_run(c, choice);
		if (memcmp(work, truth, MEMBERS * member_bytes) != 0) {
			fprintf(stderr, "%s by %s\n", c->name, peer_name(c, choice));
			die("wrong bytes");
		}
		double fastest = 1e9;
		for (int k = 0; k < 5; k++) {
			double seconds = timed(c, choice, 1 + (1 << 23) / (DATA * member_bytes));
			if (seconds < fastest)
				fastest = seconds;
		}
		if (best < 0 || fastest < best_seconds) {
			best = choice;
			best_seconds = fastest;
		}
	}
	return (best);
}

int main(void)
{
	char name[16];
	size_t bytes;
	long repeats;
	int chosen[CASES];

	peer_start();
	while (scanf("%15s %zu %ld", name, &bytes, &repeats) == 3) {
		int n = 0;
		while (n < CASES && strcmp(cases[n].name, name) != 0)
			n++;
		if (n == CASES)
			die("no such case");
		if (bytes != member_bytes) {
			prepare(bytes);
			memset(chosen, -1, sizeof (chosen));
		}
		if (chosen[n] < 0)
			chosen[n] = choose(&cases[n]);
		double seconds = timed(&cases[n], chosen[n], repeats);
		printf("%.9f %s\n", seconds, peer_name(&cases[n], chosen[n]));
		fflush(stdout);
	}
	return (0);
}
