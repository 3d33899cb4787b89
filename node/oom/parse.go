package oom

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kill is a process that the OOM killer killed.
type Kill struct {
	Process string
	PID     int
	// Cgroup is the cgroup of the process below the hierarchy's root, empty if the
	// kernel does not report it.
	Cgroup string
	// Limit is the cgroup whose limit was exceeded, or Machine if the whole machine
	// was out of memory. It is empty if the kernel only reports that a limit was
	// exceeded, not which: it limits the rate of the lines with cgroups.
	Limit string
}

// Machine is the Limit of a kill without a cgroup limit.
const Machine = "/"

// memcgPrefix begins lines about kills for the limit of a cgroup.
const memcgPrefix = "Memory cgroup out of memory: "

var (
	// Linux 5.0 and later. The limit is missing if it is the machine's.
	oomKillLine = regexp.MustCompile(
		`\boom-kill:constraint=(.*?),.*?(?:,oom_memcg=(.*))?,task_memcg=(.*),task=(.*),pid=\d+,uid=\d+$`)
	// Before Linux 5.0.
	taskLine = regexp.MustCompile(`\bTask in (.*) killed as a result of limit of (.*)$`)
	// Red Hat's 3.10 puts the user between.
	killedLine = regexp.MustCompile(`\bKilled process (\d+),?(?: UID \d+,)? \((.*)\)(?:,| total-vm)`)
)

// Parser combines the lines of the kernel log about a kill, which other lines may
// separate. The zero value is ready for use.
type Parser struct {
	cgroup, limit string
	// reported are the victims of the present kill.
	reported map[int]bool
	// group is set if all processes of a cgroup are killed together. Any other kill
	// has one victim.
	group bool
	// limited is set if the announced kill is for a cgroup's limit; kernels before
	// Linux 5.0 report that in a line of its own.
	limited bool
}

// Line parses the next line, without a prefix, and returns the kill that it
// completes. Each victim is reported once, also if all of a cgroup are killed.
func (p *Parser) Line(line string) (Kill, bool) {
	switch {
	case strings.Contains(line, " invoked oom-killer: "):
		*p = Parser{}
	case strings.Contains(line, " are going to be killed due to memory.oom.group set"):
		p.group = true
	case strings.Contains(line, "ut of memory: Kill process "):
		if len(p.reported) > 0 {
			*p = Parser{}
		}
		p.limited = strings.Contains(line, memcgPrefix)
	case strings.Contains(line, "oom-kill:"):
		if m := oomKillLine.FindStringSubmatch(line); m != nil {
			*p = Parser{cgroup: m[3], limit: m[2]}
		}
	case strings.Contains(line, "Task in "):
		if m := taskLine.FindStringSubmatch(line); m != nil {
			*p = Parser{cgroup: m[1], limit: m[2]}
		}
	case strings.Contains(line, "Killed process "):
		m := killedLine.FindStringSubmatch(line)
		if m == nil {
			break
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil || p.reported[pid] {
			break
		}
		if len(p.reported) > 0 && !p.group {
			// The lines that begin this kill are missing because the kernel limits
			// their rate. The cgroup of the last victim is not that of this one.
			*p = Parser{}
		}
		if p.reported == nil {
			p.reported = map[int]bool{}
		}
		p.reported[pid] = true
		k := Kill{Process: m[2], PID: pid, Cgroup: p.cgroup, Limit: p.limit}
		if k.Limit == "" && !p.limited && !strings.Contains(line, memcgPrefix) {
			k.Limit = Machine
		}
		return k, true
	}
	return Kill{}, false
}

// sinceBoot returns the time of a record of /dev/kmsg since the boot; 0 if it has none.
func sinceBoot(record string) time.Duration {
	header, _, _ := strings.Cut(record, ";")
	fields := strings.SplitN(header, ",", 4)
	if len(fields) < 3 {
		return 0
	}
	n, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// message returns the text of a record of /dev/kmsg, which begins with numbers up
// to a semicolon; lines with details may follow.
func message(record string) string {
	_, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	return text
}
