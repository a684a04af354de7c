#!/usr/bin/env perl
# Stands where memcached's own suite looks for its debugging build: execs the server under test with the flags that
# the suite gives, without those that mean nothing to it. Settings come by the environment:
#   SUITE_SERVER  the command, one word a line; %p in it becomes this process's id
#   SUITE_DROPS   suboptions of -o that are left out, separated by blanks
#   SUITE_NO_UDP  set: -U PORT, which the suite's library adds by itself, is left out
#   SUITE_WITHOUT flags that are left out, separated by blanks; those with a colon have an argument
#   SUITE_OVER    set: the command is a gateway, and this, one word a line, starts the service that it connects to, whose
#                 address is shm:suite-%p
use strict;
use warnings;

my %drops = map { $_ => 1 } split ' ', $ENV{SUITE_DROPS} // '';
my @words = split /\n/, $ENV{SUITE_SERVER} // die "SUITE_SERVER is not set\n";
s/%p/$$/ for @words;
my @without = split ' ', $ENV{SUITE_WITHOUT} // '';
my %with_word = map { s/:$//r => 1 } grep { /:$/ } @without;
my %alone = map { $_ => 1 } @without;
# The library asks for help before every server, to see what there is.
my $asks = grep { $_ eq '-h' } @ARGV;
serve(map { s/%p/$$/r } split /\n/, $ENV{SUITE_OVER}) if $ENV{SUITE_OVER} && !$asks;
while (defined(my $word = shift @ARGV)) {
    if ($word eq '-o') {
        my @kept = grep { my ($name) = split /=/; !$drops{$name} } split /,/, shift @ARGV;
        push @words, '-o', join(',', @kept) if @kept;
    } elsif ($word eq '-U' && $ENV{SUITE_NO_UDP}) {
        shift @ARGV;
    } elsif ($word eq '-Y') {
        chmod 0600, $ARGV[0]; # the source's is for all to read, which drover refuses
        push @words, $word, shift @ARGV;
    } elsif ($with_word{$word}) {
        shift @ARGV;
    } elsif (!$alone{$word}) {
        push @words, $word;
    }
}
# Test, server and service end with what started them, so that nothing outlives a killed suite.
unshift @words, qw(setpriv --pdeathsig KILL);
exec { $words[0] } @words or die "$words[0]: $!\n";

# Starts the service, which ends with the suite's process group, and waits until it serves.
sub serve {
    my @service = (qw(setpriv --pdeathsig KILL), @_);
    my $log = "service-$$.txt";
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDERR, '>', $log or die "$log: $!\n";
        open STDOUT, '>&', \*STDERR or die "STDOUT: $!\n";
        exec { $service[0] } @service or die "$service[0]: $!\n";
    }
    for (1 .. 1000) {
        if (open my $said, '<', $log) {
            return if grep { /serving at/ } <$said>;
        }
        select undef, undef, undef, 0.01;
    }
    die "the service does not start: $log\n";
}
