//! The seeds of dRAID's permutations: published numbers, a part of the on-disk format.
//!
//! A dRAID of n children permutes them by the map of n. A map is made from its seed ([`permutations`]), so only
//! seeds stand here, with the number of permutations and the checksum of what must come out: the first word of
//! fletcher4 over the permutations, a byte a child.
//!
//! Source: OpenZFS, `vdev_draid.c` (`draid_maps`); the generator is xoroshiro128++ by Blackman and Vigna.

use codec::checksum::{Sum, fletcher4};

/// The least and the greatest number of children that a map is there for.
pub const CHILDREN: std::ops::RangeInclusive<usize> = 2..=255;
/// The first half of the generator's state; the second is the map's seed.
const SEED: u64 = 0x000d_7a1d_5eed;

/// The permutations of a map, one after another, a byte a child: in turn, each is the shuffled one before. Nothing
/// where there is no map for so many children.
///
/// # Panics
/// What comes out isn't what the table says: our bug.
pub fn permutations(children: usize) -> Option<Vec<u8>> {
    let number = children.checked_sub(*CHILDREN.start())?;
    let (seed, checksum) = *MAPS.get(number)?;
    let mut state = [SEED, seed];
    let mut permutation: Vec<u8> = (0..=u8::MAX).take(children).collect();
    let mut all = Vec::with_capacity(children * count(children));
    for _ in 0..count(children) {
        for last in (1..children).rev() {
            let other = next(&mut state) % (last as u64 + 1);
            permutation.swap(last, other as usize);
        }
        all.extend_from_slice(&permutation);
    }
    let Sum([found, ..]) = fletcher4(&all);
    assert_eq!(found, checksum, "the permutations of {children} children are as published");
    Some(all)
}

/// Maps for so many children and more have twice as many permutations.
const LONG_FROM: usize = 32;

/// How many permutations a map has.
fn count(children: usize) -> usize {
    if children < LONG_FROM { 256 } else { 512 }
}

/// A step of xoroshiro128++.
fn next(state: &mut [u64; 2]) -> u64 {
    let [a, mut b] = *state;
    let result = a.wrapping_add(b).rotate_left(17).wrapping_add(a);
    b ^= a;
    *state = [a.rotate_left(49) ^ b ^ (b << 21), b.rotate_left(28)];
    result
}

/// Seed and checksum of the maps for 2 children, 3, and so on.
#[rustfmt::skip]
const MAPS: [(u64, u64); 254] = [
    (0x89ef_3dab_bcc7_de37, 0x0000_0000_433d_433d),
    (0x89a5_7f3d_e981_21b4, 0x0000_0000_bcd8_b7b5),
    (0xc9ea_9ec8_2340_c885, 0x0000_0001_819d_7c69),
    (0xf467_33b7_f4d4_7dfd, 0x0000_0002_a164_8d74),
    (0x88c3_c62d_8585_b362, 0x0000_0003_d3b0_c2c4),
    (0x3a65_d809_b4d1_b9d5, 0x0000_0005_5c41_83ee),
    (0xe989_30e3_c5d2_e90a, 0x0000_0006_edfb_0329),
    (0x5a54_3003_6b98_2ccb, 0x0000_0008_ceaf_6934),
    (0x92bf_389e_9ead_ac74, 0x0000_000b_2666_8c09),
    (0x74cc_ebf1_dcf3_ae80, 0x0000_000d_d691_358c),
    (0x8847_e41a_1a9f_5671, 0x0000_0010_a0c6_3c8e),
    (0x7481_b56d_ebf0_e637, 0x0000_0014_2412_1fe4),
    (0x559b_8c44_065f_8967, 0x0000_0016_ab2f_f079),
    (0x34c4_9545_a2ee_7f01, 0x0000_001a_6028_efd6),
    (0xb85f_4fa8_1a76_98f7, 0x0000_001e_95ff_5e66),
    (0x6353_e47b_7e47_aba0, 0x0000_0021_a81f_a0fe),
    (0xaa54_9746_b1cb_b81c, 0x0000_0026_f024_94c9),
    (0x892e_343f_2f31_d690, 0x0000_0029_eb39_2835),
    (0x7691_4824_db98_cc3f, 0x0000_0030_04f3_1a7c),
    (0x4b3c_babf_9cfb_1d0f, 0x0000_0036_363a_2408),
    (0xf45c_77ab_b4f0_35d4, 0x0000_0038_dd0f_3e84),
    (0x5e18_bd7f_3fd4_baf4, 0x0000_003f_0660_391f),
    (0xa7b3_a4d2_85d6_503b, 0x0000_0044_3dfc_9ff6),
    (0x56ac_7dd9_6752_1f5a, 0x0000_004b_03a8_7eb7),
    (0x3a42_dfda_4eb8_80f7, 0x0000_0052_2c71_9bba),
    (0xd200_d2fc_6b54_bf60, 0x0000_0057_60b4_fdf5),
    (0xc526_05bb_d486_c546, 0x0000_005e_00d8_f74c),
    (0xc761_779e_63cd_762f, 0x0000_0067_be3c_d85c),
    (0xca57_7b1e_07f8_5ca5, 0x0000_006f_5517_f3e4),
    (0xfd50_a593_c518_b3d4, 0x0000_0073_70e7_778f),
    (0xc6c8_7ba5_b042_650b, 0x0000_00f7_eb08_a156),
    (0xc388_0d0c_9d45_8304, 0x0000_0107_34b5_d160),
    (0xe920_927e_4d8b_2c97, 0x0000_0118_c1ed_bce0),
    (0x8da7_fcda_87bd_e316, 0x0000_012a_3e9f_9110),
    (0xcf09_9374_9151_4a29, 0x0000_013b_d6a2_4bef),
    (0x9b5a_bbf3_45cb_d7cc, 0x0000_014b_9d90_fac3),
    (0x5063_12a4_4668_d6a9, 0x0000_015e_1b5f_6148),
    (0x7165_9ede_62b4_755f, 0x0000_0173_ef02_9bcd),
    (0xa7fd_e73f_b74c_f2d7, 0x0000_0186_6fb7_2748),
    (0x19e8_b461_a1de_a1d3, 0x0000_01a0_46f7_6b23),
    (0x031c_9b86_8cc3_e976, 0x0000_01af_a64c_49d3),
    (0xbaa5_125f_aa78_1854, 0x0000_01c7_6789_e278),
    (0x4ed5_5052_550d_721b, 0x0000_01d8_00cc_d8eb),
    (0x0fd6_3ddb_dff9_0677, 0x0000_01f0_8ad5_9ed2),
    (0x36d6_6546_de7f_dd6f, 0x0000_0201_6f09_574b),
    (0x99f9_97e7_eafb_69d7, 0x0000_021e_42e4_7cb6),
    (0xbecd_9c25_7131_2c5d, 0x0000_0232_0fe2_872b),
    (0xd973_7132_9e48_8a32, 0x0000_024c_d73f_2ca7),
    (0x30e9_b136_6707_49ee, 0x0000_0268_1c83_b0e0),
    (0x11ad_6bc8_f47a_aeb4, 0x0000_027e_9261_b5d5),
    (0x68e4_4530_0af4_32c1, 0x0000_029a_a0eb_7dbf),
    (0x910f_b561_657e_a98c, 0x0000_02b3_dca0_4853),
    (0xd619_693d_8ce5_e7a5, 0x0000_02cc_280e_9c97),
    (0x24e2_81f5_64db_b60a, 0x0000_02e9_fa84_2713),
    (0x947a_7d3b_daab_44c5, 0x0000_0304_6680_f72e),
    (0x2d44_fec9_c093_e0de, 0x0000_0324_198b_a810),
    (0x8774_3c27_2d29_bb4c, 0x0000_033e_c48c_9ac9),
    (0x96aa_3b6f_67f5_d923, 0x0000_034f_aead_902c),
    (0x94a4_f1fa_f520_b0d3, 0x0000_037d_713a_b005),
    (0xb13e_d3a2_72f7_11a2, 0x0000_0397_368f_3cbd),
    (0x3b1b_1180_5fa4_a64a, 0x0000_03b8_a5e2_840c),
    (0x4c74_caad_9172_ba71, 0x0000_03d4_be28_0290),
    (0x035f_f643_923d_d29e, 0x0000_03fa_d6c3_55e1),
    (0x768e_9171_b11a_bd3c, 0x0000_040e_b07f_ed20),
    (0x7588_0e6f_78a1_3ddd, 0x0000_0443_3d6a_cf14),
    (0x910b_9714_f698_a877, 0x0000_0451_ea65_d5db),
    (0x87f5_db6f_9fdc_f5c7, 0x0000_0473_2169_e3f7),
    (0x836d_4968_fbaa_3706, 0x0000_0495_4068_a380),
    (0xc567_d73a_0364_21ab, 0x0000_04bd_7cb7_bd3d),
    (0x619d_f40f_240b_8fed, 0x0000_04e3_76c2_e972),
    (0x4276_3a68_0d5b_ed8e, 0x0000_0508_4275_c680),
    (0x5866_f064_b323_0431, 0x0000_0529_06f2_c9ab),
    (0x9fa0_8548_b162_1a44, 0x0000_0547_0801_9247),
    (0xb605_3078_ce0f_c303, 0x0000_0572_cc5c_72b0),
    (0x4a7a_ad7b_f389_0923, 0x0000_058e_987b_c8e9),
    (0xe165_613f_d75b_5a53, 0x0000_05c2_0473_a211),
    (0x3ff1_54ac_8781_63a6, 0x0000_05d6_5919_4bf3),
    (0x24b9_3ade_0aa8_a532, 0x0000_060a_201c_4f8e),
    (0xc18e_2d14_cd9b_b554, 0x0000_062c_55cf_e48c),
    (0x98cc_7830_2feb_58b6, 0x0000_0666_56a0_7194),
    (0xc6c5_fd5a_2abc_0543, 0x0000_067c_ff94_fbf8),
    (0xa796_2f51_4acb_ba21, 0x0000_06ab_7b5a_fa2e),
    (0xba02_5450_69dd_c6dc, 0x0000_06d1_9861_364f),
    (0x447c_7319_2c35_073e, 0x0000_06fc_e315_ce35),
    (0x48be_ef9e_2d42_b0c2, 0x0000_0720_a8e3_8b6b),
    (0x4874_cf98_541a_35e0, 0x0000_0758_382a_2273),
    (0xad4c_f833_3a31_127a, 0x0000_0781_e165_1b1b),
    (0x47ae_4859_d578_88c1, 0x0000_07b2_7edb_e5bc),
    (0x06f7_723c_fe5d_1891, 0x0000_07dc_2a96_d8eb),
    (0xd4e4_4218_d660_576d, 0x0000_080a_c46f_02d5),
    (0x7066_702b_0d5b_e1f2, 0x0000_0832_c96d_154e),
    (0x0112_09b4_f9e1_1fb9, 0x0000_085e_efda_104c),
    (0x47ff_ba30_a0b3_5708, 0x0000_0899_badc_32dc),
    (0x1a95_a6ac_4538_aaa8, 0x0000_08b6_b69a_42b2),
    (0xbda2_b239_bb20_08eb, 0x0000_08f2_2d2d_e38a),
    (0x7ffa_0bea_9035_5c6c, 0x0000_092e_5b23_b816),
    (0x1d56_ba34_be42_6795, 0x0000_094f_482e_5d1b),
    (0x0aa8_9d45_c502_e93d, 0x0000_0977_d94a_98ce),
    (0x5436_9449_f685_7774, 0x0000_09c0_6c9b_34cc),
    (0xf7d4_dd84_45b4_6765, 0x0000_09e5_dc54_2259),
    (0xfa88_6631_2f16_9469, 0x0000_0a16_b54e_ae93),
    (0xd8a5_aea0_8aef_3ff9, 0x0000_0a38_1d2c_bfe7),
    (0x66bc_d2c3_d5f9_ef0e, 0x0000_0a81_9181_7be7),
    (0x3fb1_3a47_a012_ec81, 0x0000_0ab5_62b9_a254),
    (0x4310_0f01_c9e5_e3ca, 0x0000_0aee_e84c_185f),
    (0xca09_c50c_cee2_d054, 0x0000_0b1c_359c_047d),
    (0xd717_6732_ac50_3f9b, 0x0000_0b57_8bc5_2a73),
    (0xed20_6e51_f8d9_422d, 0x0000_0b80_83e0_d960),
    (0x17ea_d5dc_6ba0_dcd6, 0x0000_0bcf_b1a3_2ca8),
    (0x5f1d_c21e_38a9_69eb, 0x0000_0c01_71be_cdd6),
    (0xddaa_973d_e33e_c528, 0x0000_0c3e_daba_4b95),
    (0x2a5e_ccd7_735a_3630, 0x0000_0c63_0664_e7df),
    (0xafcc_cee5_c0b7_1446, 0x0000_0cb6_5392_f6e4),
    (0x8fa3_0c5e_7b14_7e27, 0x0000_0cd4_db39_1e55),
    (0x5afe_0711_fdfa_fd82, 0x0000_0d08_cb4e_c35d),
    (0x533a_6090_238a_fd4c, 0x0000_0d33_6f11_5d1b),
    (0x90cf_11b5_95e3_9a84, 0x0000_0d8e_041c_2048),
    (0x0d61_a3b8_0944_4009, 0x0000_0dcb_798a_fe35),
    (0x7f34_da0f_54b0_d114, 0x0000_0df3_9226_64e1),
    (0xa522_58d5_b72f_6551, 0x0000_0e4d_37a9_872d),
    (0xc1de_54d7_6728_78db, 0x0000_0e65_83a9_4cf6),
    (0x1d03_3543_16a4_14ab, 0x0000_0ebf_fc50_308d),
    (0xcebd_cc37_7665_412c, 0x0000_0ede_e199_7cea),
    (0x4ddd_4c04_b1a1_2344, 0x0000_0f21_d64b_373f),
    (0x64fc_8f94_e397_3658, 0x0000_0f8f_87a8_896b),
    (0x6876_5f78_034a_334e, 0x0000_0fb8_fe62_197e),
    (0xaf36_b871_a303_e816, 0x0000_0fec_6f3a_fb1e),
    (0x2a4c_bf73_866c_3a28, 0x0000_1027_febf_e4e5),
    (0x9cb1_28aa_cdcd_3b2f, 0x0000_106a_a8ac_569d),
    (0x5511_d41c_5586_9124, 0x0000_10bb_d755_ddf1),
    (0x42f9_2461_937f_284a, 0x0000_10fb_8bce_b3b5),
    (0xe2d8_9a1c_f6f1_f287, 0x0000_114c_f533_1e34),
    (0xdc63_1a03_8956_200e, 0x0000_1164_28d2_adc5),
    (0xb2e5_ac22_2cd2_36be, 0x0000_11ca_88e4_d4d2),
    (0xbc7d_8236_655d_88e7, 0x0000_11e3_9cb9_4e66),
    (0x073e_02d8_8d2d_8e75, 0x0000_1231_36c7_933c),
    (0x3ddb_9c38_7316_6be0, 0x0000_1280_e4ec_6d52),
    (0x7d3b_1a84_5420_e1b5, 0x0000_12c2_e7cd_6a44),
    (0x6010_2308_aa7b_2a6c, 0x0000_12fc_490e_6c7d),
    (0xdb22_bb2f_9eb8_94aa, 0x0000_1343_f5a8_5a1a),
    (0xd853_f879_a13b_1606, 0x0000_13bb_7d5f_9048),
    (0x0016_20a0_3f80_4b1d, 0x0000_13e7_4cc7_94fd),
    (0xfdb5_2dda_76fb_f667, 0x0000_1442_d2f2_2480),
    (0xa916_0110_f66e_24ff, 0x0000_144b_899f_9dbb),
    (0x7730_6a30_379a_e03b, 0x0000_14cb_98eb_1f81),
    (0x14f5_985d_2752_319d, 0x0000_14fe_ab82_1fc9),
    (0xa4b8_ff11_de78_63f8, 0x0000_154a_0e60_b9c9),
    (0x44b3_4542_6455_c1b3, 0x0000_1599_9c3c_569c),
    (0x2726_7782_6049_b46c, 0x0000_15c9_697f_4b92),
    (0x2f92_16e2_cd74_fe40, 0x0000_162b_1f7b_bd39),
    (0x706a_e3e7_63ad_8771, 0x0000_1661_371c_55e1),
    (0xf7fd_3453_07c2_480e, 0x0000_16e2_51f2_8b6a),
    (0x6e94_e3d2_6b31_39eb, 0x0000_16f2_429b_b8c6),
    (0x5458_bbfb_b781_fcba, 0x0000_173e_fdec_a1b9),
    (0xa80e_2afe_ccd9_3b33, 0x0000_17bf_dcb7_8adc),
    (0x1e4c_cbb2_2796_cf9d, 0x0000_1826_fdcc_39c9),
    (0x8fba_4b67_6aaa_3663, 0x0000_1841_a137_9480),
    (0xf82b_8438_14b3_15fa, 0x0000_1888_6e19_b8a3),
    (0x7f21_e920_ecf7_53a3, 0x0000_1918_12ca_0ea7),
    (0x48bb_8ea2_c4ca_a620, 0x0000_192f_310f_accf),
    (0x5cdb_652b_4952_c91b, 0x0000_199e_1d74_37c7),
    (0x6ac1_ba6f_78c0_6cd4, 0x0000_19cd_11f8_2c70),
    (0x9faf_5f9c_a266_9a56, 0x0000_1a18_d543_1f6a),
    (0xaa57_e938_3eb0_1194, 0x0000_1a9e_7d25_3d85),
    (0x8969_67bf_495c_34d2, 0x0000_1afb_8319_b9fc),
    (0xdfad_5f05_de22_5f1b, 0x0000_1b3a_59c3_093b),
    (0xfd29_9a99_f9f2_abdd, 0x0000_1bb6_f1a1_0799),
    (0xdda2_39e7_98fe_9fd4, 0x0000_1bfa_e0c9_692d),
    (0x5fca_6704_14a3_2c3e, 0x0000_1c22_129d_bcff),
    (0x1bb8_9343_14b0_87de, 0x0000_1c95_5db3_6cd0),
    (0xd963_94b4_b082_200d, 0x0000_1cfc_8619_b7e6),
    (0xb612_a773_5b1c_8cbc, 0x0000_1d30_3acd_d585),
    (0x28e7_430f_e587_5fe1, 0x0000_1d7e_d5b3_697d),
    (0x5038_e89e_fdd9_81b9, 0x0000_1dc4_0ec3_5c59),
    (0x075f_d78f_1d14_db7c, 0x0000_1e31_c83b_4a2b),
    (0xc50f_afdb_5021_be15, 0x0000_1e7c_dac8_2fbc),
    (0xe6dc_7572_ce7b_91c7, 0x0000_1edd_8bb4_54fc),
    (0x21f7_843e_7bed_a537, 0x0000_1f3a_8e01_9d6c),
    (0xc833_85e2_0b43_ec82, 0x0000_1f70_735e_c137),
    (0xca81_8217_dddb_21fd, 0x0000_201c_a44c_5a3c),
    (0xe603_5def_ea48_f933, 0x0000_2038_e334_6658),
    (0x4726_2a4f_953d_ac5a, 0x0000_20c2_e554_314e),
    (0xe24c_7246_2608_73ea, 0x0000_2119_7e61_8d64),
    (0xeef6_b57c_9b58_e9e1, 0x0000_217e_a48e_cddc),
    (0x2bec_d334_6e38_6142, 0x0000_21c4_96d4_a5f9),
    (0x63c6_207b_df3b_40a3, 0x0000_220e_0f2e_ec0c),
    (0x3056_ce89_8976_7d4b, 0x0000_228e_b76c_d137),
    (0x91af_61c3_07ce_e780, 0x0000_22e1_7e2e_a501),
    (0xda35_9da2_25f6_d54f, 0x0000_2358_a2de_bc19),
    (0x0a5f_7a2a_5560_7ba0, 0x0000_238a_79da_c18c),
    (0x27bb_75bf_5224_638a, 0x0000_2403_a58e_2351),
    (0x1ebf_db94_630f_5d0f, 0x0000_2492_a10c_b339),
    (0x6eae_5e51_d9c5_f6fb, 0x0000_24ce_4bf9_8715),
    (0x08d9_03b4_daed_c2e0, 0x0000_250d_1e15_886c),
    (0xc722_a2f7_fa7c_d686, 0x0000_258a_99ed_0c9e),
    (0x8f71_faf0_e54e_361d, 0x0000_25de_e119_76f5),
    (0x87f6_4695_c91a_54e7, 0x0000_264e_00a4_3da0),
    (0xc719_cbac_2c33_6b92, 0x0000_26d3_2727_7ac1),
    (0xe7e6_47af_af77_1ade, 0x0000_2752_3a5c_44bf),
    (0x12d4_b5c3_8ce8_c946, 0x0000_2738_9843_2545),
    (0xf2e0_cd40_67bd_c94a, 0x0000_27e4_7bb2_c935),
    (0x21b7_9f14_d6d9_47d3, 0x0000_281e_6497_7f0d),
    (0x5150_93f9_52f1_8cd6, 0x0000_2896_91a4_73fd),
    (0xd47b_160a_1b10_22c8, 0x0000_2903_e8b5_2411),
    (0xc02f_c966_8471_5a16, 0x0000_2975_1560_8601),
    (0xef51_e68e_fba7_2ed0, 0x0000_29ef_7360_4804),
    (0x9e3b_e6e5_448b_4f33, 0x0000_2a28_46ed_074b),
    (0x81d4_46c6_d5fe_c063, 0x0000_2a92_ca69_3455),
    (0xff21_5de8_224e_57d5, 0x0000_2b22_71fe_3729),
    (0xe252_4d9b_a8f6_9796, 0x0000_2b64_b99c_3ba2),
    (0xf6b2_8e26_097b_7e4b, 0x0000_2bd7_68b6_e068),
    (0x893a_487f_30ce_1644, 0x0000_2c67_f722_b4b2),
    (0x3865_66c3_fc98_71df, 0x0000_2cc1_cf8b_4037),
    (0x1e0e_d78e_df1f_558a, 0x0000_2d39_48d3_6c7f),
    (0xe3bc_20c3_1e61_f113, 0x0000_2d6d_6b12_e025),
    (0xd6c3_ad2e_2302_1882, 0x0000_2def_f757_2241),
    (0xb4a9_f95c_f0f6_9c5a, 0x0000_2e67_d537_aa36),
    (0x6e98_ed6f_6c38_e82f, 0x0000_2e97_2062_6789),
    (0x2e01_edba_33fd_dac7, 0x0000_2f40_7c6b_0198),
    (0x559d_02e1_f5f5_7ccc, 0x0000_2fb6_a5ab_4f24),
    (0xac18_f5a9_16ad_cd8e, 0x0000_304a_e1c5_c57e),
    (0x1578_9fba_ddb8_6f4b, 0x0000_306f_6e01_9c78),
    (0xf4a9_c36d_5bc4_c408, 0x0000_30da_4043_4213),
    (0xf640_f90f_d272_7f44, 0x0000_3189_ed37_b90c),
    (0xb531_3d39_0d61_884a, 0x0000_31e1_5261_6b37),
    (0x4bae_6b3c_e916_0939, 0x0000_321f_40ae_ac42),
    (0x838c_3448_0f1a_66a1, 0x0000_32f3_89c0_f78e),
    (0xb1c4_a52c_8e3d_6060, 0x0000_3300_62a4_0284),
    (0xe0f1_110c_6d0e_d822, 0x0000_338b_e435_644f),
    (0x9f1a_8ccd_cea6_8d4b, 0x0000_3404_5a4e_97e1),
    (0x3261_ed62_223f_3099, 0x0000_3470_2cfc_401c),
    (0xf219_1e23_1102_2d65, 0x0000_3509_dd19_c9fc),
    (0xf102_a395_c203_3abc, 0x0000_3565_4dc9_6fae),
    (0x11fe_378f_0279_06b6, 0x0000_35b5_193b_0264),
    (0xf777_f2c0_26b3_37aa, 0x0000_3670_4f5d_9297),
    (0x1b04_e9c2_ee14_3f32, 0x0000_36df_bb7a_f218),
    (0x2fce_c952_66f9_352c, 0x0000_3785_c8df_24a9),
    (0xfe2b_0e47_e427_dd85, 0x0000_37cb_df5d_a729),
    (0x72b4_9bf2_225f_6c6d, 0x0000_3822_27c1_5855),
    (0x5048_6b43_df7d_f9c7, 0x0000_389b_88be_6453),
    (0x5192_a3e5_3181_c8ab, 0x0000_38dd_f3d6_7263),
    (0xe9f5_d836_5296_fd5e, 0x0000_399f_1c6c_9e9c),
    (0xc740_263f_0301_efa8, 0x0000_3a14_7146_512d),
    (0x23cd_0f2b_5671_e67d, 0x0000_3ab1_0bcc_0d9d),
    (0x002c_cc7e_5cd4_1390, 0x0000_3ad6_cd14_a6c0),
    (0x9aaf_b3c0_2544_b31b, 0x0000_3b8c_b877_9fb0),
    (0x72ba_07a7_8b12_1999, 0x0000_3c24_142a_5a3f),
    (0x3d78_4aa5_8edf_c7b4, 0x0000_3cd0_8481_7d99),
    (0xaab7_5042_4d80_04af, 0x0000_3d50_6a8e_098e),
    (0x8440_3fcf_8e6b_5ca2, 0x0000_3d4c_54c2_aec4),
    (0x71eb_7455_ec98_e207, 0x0000_3e65_5715_cf2c),
    (0xd752_b4f1_9301_595b, 0x0000_3ecd_7b2c_a5ac),
    (0xc467_4129_7504_99de, 0x0000_3e99_e86d_3e95),
    (0x9772_baff_5cd1_2ef5, 0x0000_3f89_5c01_9841),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_comes_out_as_published_and_permutes_its_children() {
        for children in CHILDREN {
            let all = permutations(children).expect("there is a map");
            assert_eq!(all.len(), children * count(children));
            let last = &all[all.len() - children..];
            let mut sorted: Vec<usize> = last.iter().map(|child| usize::from(*child)).collect();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..children));
        }
        assert!(permutations(0).is_none() && permutations(1).is_none());
        assert!(permutations(256).is_none());
    }
}
