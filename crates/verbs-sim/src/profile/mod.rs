//! What a modelled card, host and network cost, as plain numbers.
