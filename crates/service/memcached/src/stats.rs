//! `stats` and its variants, with memcached's names. Every number counts what its name says; numbers that we do not
//! count, or that could only be 0 (pages moved, failed allocations), are left out.

use crate::counters::{Counters, Holdings};
use crate::parse::ERROR;
use crate::parse::scan::Line;
use crate::{Executor, Server, exec};
use drover_base::Cpu;
use drover_base::sync::Ordering;
use drover_net::Output;
use drover_store::Sharing;
use std::fmt::{Display, Write};

/// The command must wait for replies to earlier commands of the connection.
pub(crate) struct MustWait;

/// Lines `STAT <name> <value>`.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.0, "STAT {name} {value}\r\n");
    }

    fn finish(mut self, output: &mut Output) {
        self.0.push_str("END\r\n");
        output.push(self.0.as_bytes());
    }
}

/// Answers `stats ...`.
///
/// # Errors
/// [`MustWait`]; nothing was done.
pub(crate) fn answer<C: Cpu, S: Sharing>(
    executor: &mut Executor<'_, C, S>,
    words: &Line<'_>,
    output: &mut Output,
) -> Result<(), MustWait> {
    if output.has_holes() {
        return Err(MustWait);
    }
    let mut lines = Lines(String::new());
    match words.word(1) {
        b"" => general(executor, &mut lines),
        b"settings" => settings(executor, &mut lines),
        b"items" | b"slabs" if executor.server.settings.gateway.is_some() => {}
        b"items" => items(executor, &mut lines),
        b"slabs" => slabs(executor, &mut lines),
        b"sizes" => lines.add("sizes_status", "disabled"),
        b"conns" => executor
            .server
            .host
            .write_connections(&mut lines.0, executor.now_s),
        b"reset" => {
            executor.reset_counters();
            exec::reply(output, "RESET");
            return Ok(());
        }
        b"detail" if executor.server.settings.gateway.is_some() => {
            exec::reply(output, ERROR);
            return Ok(());
        }
        b"detail" => {
            detail(executor, words.word(2), output);
            return Ok(());
        }
        _ => {
            exec::reply(output, ERROR);
            return Ok(());
        }
    }
    lines.finish(output);
    Ok(())
}

fn general<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, lines: &mut Lines) {
    let (server, host) = (executor.server, &executor.server.host);
    let (counters, held) = executor.totals();
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let connections = host.connections();
    lines.add("pid", host.pid());
    lines.add("uptime", executor.now_s.saturating_sub(server.settings.began_s));
    lines.add("time", server.start_unix_s + u64::from(executor.now_s));
    lines.add("version", &server.settings.version);
    lines.add("pointer_size", usize::BITS);
    if let Some((user_us, system_us)) = host.rusage_us() {
        lines.add("rusage_user", seconds(user_us));
        lines.add("rusage_system", seconds(system_us));
    }
    lines.add("max_connections", server.settings.sockets.connections_max);
    lines.add("curr_connections", connections.current);
    lines.add("total_connections", connections.total);
    lines.add("rejected_connections", connections.rejected);
    lines.add("connection_structures", connections.current);
    let has_items = server.settings.gateway.is_none();
    for (name, value) in Counters::NAMES.iter().zip(counters.values()) {
        // A system does not tell why a key is not there.
        if has_items || *name != "get_expired" {
            lines.add(name, value);
        }
    }
    lines.add("idle_kicks", connections.idle_kicks);
    lines.add("bytes_read", connections.bytes_read);
    lines.add("bytes_written", connections.bytes_written);
    if has_items {
        lines.add("limit_maxbytes", server.memory_bytes());
    }
    lines.add("accepting_conns", u32::from(connections.accepting));
    lines.add("listen_disabled_num", connections.listen_disabled);
    lines.add("threads", server.settings.threads);
    lines.add("conn_yields", connections.yields);
    let watched = server.watchers.watched();
    lines.add("log_worker_written", watched.lines);
    lines.add("log_watcher_skipped", watched.skipped);
    lines.add("log_watcher_sent", watched.sent);
    lines.add("log_watchers", watched.watchers);
    if has_items {
        holdings(&held, lines);
    }
    host.write_stats(&mut lines.0);
}

/// Numbers of the items.
fn holdings(held: &Holdings, lines: &mut Lines) {
    lines.add("hash_power_level", held.slots.max(1).ilog2());
    lines.add("hash_bytes", held.slots * 8);
    lines.add("bytes", held.bytes);
    lines.add("curr_items", held.curr_items);
    lines.add("total_items", held.total_items);
    lines.add("evictions", held.evictions);
    lines.add("expired_unfetched", held.expired_unfetched);
    lines.add("evicted_unfetched", held.evicted_unfetched);
    lines.add("reclaimed", held.reclaimed);
}

fn settings<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, lines: &mut Lines) {
    let settings = &executor.server.settings;
    let yes_no = |yes| if yes { "yes" } else { "no" };
    let or_null = |text: &Option<String>| text.clone().unwrap_or_else(|| "NULL".to_owned());
    if settings.gateway.is_none() {
        lines.add("maxbytes", executor.server.memory_bytes());
    }
    lines.add("maxconns", settings.sockets.connections_max);
    lines.add("tcpport", settings.sockets.tcp_port);
    lines.add("udpport", 0);
    lines.add("inter", or_null(&settings.sockets.listen));
    lines.add("verbosity", settings.verbosity);
    lines.add("oldest", oldest(executor.server));
    if settings.gateway.is_none() {
        lines.add("evictions", if settings.items.evictions { "on" } else { "off" });
    }
    lines.add("domain_socket", or_null(&settings.sockets.unix_socket));
    lines.add("umask", format_args!("{:o}", settings.sockets.unix_mask));
    lines.add("shutdown_command", yes_no(settings.commands.shutdown));
    lines.add("growth_factor", "1.00");
    lines.add("chunk_size", 8);
    lines.add("num_threads", settings.threads);
    lines.add("stat_key_prefix", char::from(executor.server.detail.delimiter()));
    lines.add("detail_enabled", yes_no(executor.server.detail.is_on()));
    lines.add("reqs_per_event", settings.requests_per_event);
    lines.add("cas_enabled", yes_no(settings.items.cas));
    lines.add("tcp_backlog", settings.sockets.backlog);
    lines.add("binding_protocol", settings.sockets.protocol);
    lines.add("auth_enabled_sasl", "no");
    lines.add(
        "auth_enabled_ascii",
        settings.sockets.auth_file.as_deref().unwrap_or("no"),
    );
    lines.add("item_size_max", settings.items.item_bytes_max);
    lines.add("maxconns_fast", yes_no(settings.sockets.maxconns_fast));
    lines.add("slab_reassign", "no");
    lines.add("slab_automove", 0);
    lines.add("lru_crawler", "no");
    lines.add("flush_enabled", yes_no(settings.commands.flush));
    lines.add("dump_enabled", yes_no(settings.commands.dump));
    if settings.gateway.is_none() {
        lines.add("hash_algorithm", executor.server.hasher.kind());
    }
    lines.add("lru_maintainer_thread", "no");
    lines.add("lru_segmented", "no");
    lines.add("idle_timeout", settings.sockets.idle_timeout_s);
    lines.add("watcher_logbuf_size", settings.watcher_bytes);
    lines.add("track_sizes", "no");
    lines.add("inline_ascii_response", "no");
    lines.add("watch_enabled", yes_no(settings.commands.watch));
    lines.add("ssl_enabled", yes_no(settings.sockets.tls.is_some()));
    if let Some(tls) = &settings.sockets.tls {
        lines.add("ssl_session_cache", yes_no(tls.session_cache));
        lines.add("ssl_kernel_tls", "no");
        lines.add("ssl_chain_cert", &tls.chain_cert);
        lines.add("ssl_key", &tls.key);
        lines.add("ssl_verify_mode", tls.verify_mode);
        lines.add("ssl_keyformat", 1);
        lines.add("ssl_ciphers", "NULL");
        lines.add("ssl_ca_cert", or_null(&tls.ca_cert));
        lines.add("ssl_wbuf_size", tls.write_bytes);
        lines.add("ssl_min_version", tls.min_version);
    }
    lines.add("memory_file", or_null(&settings.items.memory_file));
    if let Some(gateway) = &settings.gateway {
        lines.add("gateway_system", &gateway.system);
        lines.add("gateway_address", &gateway.address);
        lines.add("gateway_refuses", &gateway.refuses);
    }
}

/// Uptime in seconds from which on items are stored that the last `flush_all` has left; 0 if there was none. A flush within
/// the first second counts as one of the second.
fn oldest(server: &Server) -> u32 {
    // Relaxed: shown as it is.
    match server.flushed_s.load(Ordering::Relaxed) {
        0 => 0,
        at_s => at_s.saturating_sub(server.settings.began_s).max(1),
    }
}

/// `stats items`: one class holds everything.
fn items<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, lines: &mut Lines) {
    let (counters, held) = executor.totals();
    if held.curr_items == 0 {
        return;
    }
    lines.add("items:1:number", held.curr_items);
    lines.add("items:1:mem_requested", held.bytes);
    lines.add("items:1:evicted", held.evictions);
    lines.add("items:1:outofmemory", counters.store_no_memory);
    lines.add("items:1:reclaimed", held.reclaimed);
    lines.add("items:1:expired_unfetched", held.expired_unfetched);
    lines.add("items:1:evicted_unfetched", held.evicted_unfetched);
}

fn slabs<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, lines: &mut Lines) {
    let (counters, held) = executor.totals();
    lines.add("1:chunk_size", 8);
    lines.add("1:chunks_per_page", held.limit_maxbytes / 8);
    lines.add("1:total_pages", 1);
    lines.add("1:total_chunks", held.limit_maxbytes / 8);
    lines.add("1:used_chunks", held.bytes / 8);
    lines.add(
        "1:free_chunks",
        held.limit_maxbytes.saturating_sub(held.bytes) / 8,
    );
    lines.add("1:get_hits", counters.get_hits);
    lines.add("1:cmd_set", counters.cmd_set);
    lines.add("1:delete_hits", counters.delete_hits);
    lines.add("1:incr_hits", counters.incr_hits);
    lines.add("1:decr_hits", counters.decr_hits);
    lines.add("1:cas_hits", counters.cas_hits);
    lines.add("1:cas_badval", counters.cas_badval);
    lines.add("1:touch_hits", counters.touch_hits);
    lines.add("active_slabs", 1);
    lines.add("total_malloced", held.limit_maxbytes);
}

fn detail<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, what: &[u8], output: &mut Output) {
    let detail = &executor.server.detail;
    match what {
        b"on" => detail.switch(true),
        b"off" => detail.switch(false),
        b"dump" => {
            let mut text = String::new();
            detail.write(&mut text);
            text.push_str("END\r\n");
            return output.push(text.as_bytes());
        }
        _ => return exec::reply(output, "CLIENT_ERROR usage: stats detail on|off|dump"),
    }
    exec::reply(output, "OK");
}
