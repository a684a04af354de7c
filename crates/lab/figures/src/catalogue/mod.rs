//! All figures: a file for each figure or two, and a line for each in [`all`].

mod atc11;
mod atc12;
mod atc13;
mod atc14;
mod atc_tables;
pub mod emulations;
mod fasst;
mod herd;
mod herd10;
mod herd11;
mod herd12;
mod herd13;
mod herd14;
mod herd2;
mod herd3;
mod herd4;
mod herd5;
mod herd6;
mod herd7;
mod herd9;
mod herd_table1;
mod others;
mod ours;
mod parts;
mod prism1;
mod rfp;
mod rfp10;
mod rfp13;
mod rfp17;
mod rfp9;
mod rfp_mix;
mod rfp_systems;
mod smart13;
mod smart3;
mod smart4;
mod smart_ht;
mod smart_ht_claims;
mod smart_table1;
#[cfg(test)]
pub(crate) mod tests;

use crate::figure::Figure;
use crate::judge::Claim;
pub use smart13::FACTOR;

/// Returns every figure, grouped by paper; our own figures are last.
pub fn all() -> Vec<Figure> {
    let mut all = vec![
        herd_table1::FIGURE,
        herd2::FIGURE,
        herd3::FIGURE,
        herd4::FIGURE,
        herd5::FIGURE,
        herd6::FIGURE,
        herd7::FIGURE,
        herd9::FIGURE,
        herd10::FIGURE,
        herd10::SUSITNA,
        herd11::FIGURE,
        herd12::FIGURE,
        herd13::FIGURE,
        herd14::FIGURE,
        rfp::FIGURE_3,
        rfp::FIGURE_4,
        rfp::FIGURE_5,
        rfp::FIGURE_6,
        rfp9::FIGURE_9,
        rfp10::FIGURE_10,
        rfp10::FIGURE_12,
        rfp13::FIGURE,
        rfp9::FIGURE_14,
        rfp9::FIGURE_15,
        rfp17::FIGURE_17,
        rfp17::FIGURE_18,
        rfp_mix::MIX,
        rfp_mix::TABLE_3,
        smart3::FIGURE,
        smart4::FIGURE,
        smart4::BYTES,
        smart13::FIGURE,
        smart13::UNSCALED,
        smart_table1::FIGURE,
        smart_ht::FIGURE_5A,
        smart_ht::FIGURE_5B,
        smart_ht::FIGURE_7,
        smart_ht::FIGURE_8,
        smart_ht::FIGURE_9,
        smart_ht::FIGURE_14,
        atc11::FIGURE,
        atc11::ONE_CORE,
        atc12::FIGURE,
        atc13::FIGURE,
        atc14::FIGURE,
        atc_tables::TABLE_4,
        atc_tables::TABLE_5,
        fasst::FIGURE_1,
        fasst::FIGURE_2,
        prism1::FIGURE,
    ];
    all.extend(
        [ours::BY_VALUE, ours::BY_PUTS, ours::BY_CORES]
            .into_iter()
            .flatten(),
    );
    all.push(ours::SOCKETS_BY_CORES);
    all
}

/// Returns what must hold of the curves of the figure called `figure`; most figures are judged by their single values only.
pub fn claims(figure: &str) -> Vec<Claim> {
    smart_ht_claims::of(figure)
}
