#!/usr/bin/env perl
# Stands where memcached's own suite looks for its debugging build: execs the server under test with the flags that
# the suite gives, without those that mean nothing to it. Settings come by the environment:
#   SUITE_SERVER  the command, one word a line; %p in it becomes this process's id
#   SUITE_DROPS   suboptions of -o that are left out, separated by blanks
#   SUITE_NO_UDP  set: -U PORT, which the suite's library adds by itself, is left out
use strict;
use warnings;

my %drops = map { $_ => 1 } split ' ', $ENV{SUITE_DROPS} // '';
my @words = split /\n/, $ENV{SUITE_SERVER} // die "SUITE_SERVER is not set\n";
s/%p/$$/ for @words;
while (defined(my $word = shift @ARGV)) {
    if ($word eq '-o') {
        my @kept = grep { my ($name) = split /=/; !$drops{$name} } split /,/, shift @ARGV;
        push @words, '-o', join(',', @kept) if @kept;
    } elsif ($word eq '-U' && $ENV{SUITE_NO_UDP}) {
        shift @ARGV;
    } else {
        push @words, $word;
    }
}
exec { $words[0] } @words or die "$words[0]: $!\n";
