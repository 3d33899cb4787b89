package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// programInfo is a program of the table.
type programInfo struct{ name, version string }

// report collects the measurements of all rounds.
type report struct {
	pods, rounds int
	idle         time.Duration
	programs     []programInfo
	all          map[string][]measurement
}

func (r *report) add(name string, m measurement) {
	if r.all == nil {
		r.all = map[string][]measurement{}
	}
	r.all[name] = append(r.all[name], m)
	progress("%s: start %.2f s, replacement %.2f s, memory %.1f MB", name, m.values[startOfPods], m.values[replacement],
		m.values[memoryAll])
}

// titles returns the first column of the table.
func (r *report) titles() [count]string {
	return [count]string{
		startOfPods:    fmt.Sprintf("start of %d pods", r.pods),
		replacement:    "replacement of an edited pod",
		idleDaemon:     fmt.Sprintf("CPU while idle with %d pods: the daemon", r.pods),
		idleAll:        fmt.Sprintf("CPU while idle with %d pods: the node", r.pods),
		memoryDaemon:   "private memory: the daemon",
		memoryRuntime:  "private memory: containerd",
		memoryMonitors: "private memory: the monitors of containers",
		memoryAll:      "private memory: the node",
		binarySize:     "size of the program",
	}
}

// units are the units of the measurements.
var units = [count]string{"s", "s", "%", "%", "MB", "MB", "MB", "MB", "MB"}

// printRows prints the table of these measurements.
func (r *report) printRows(out io.Writer, rows []int) {
	fmt.Fprint(out, "| |")
	for _, p := range r.programs {
		fmt.Fprintf(out, " %s |", p.name)
	}
	fmt.Fprintf(out, "\n|%s\n", strings.Repeat("---|", len(r.programs)+1))
	titles := r.titles()
	for _, what := range rows {
		fmt.Fprintf(out, "| %s |", titles[what])
		for i, p := range r.programs {
			fmt.Fprintf(out, " %s |", r.cell(what, p.name, i == 0))
		}
		fmt.Fprintln(out)
	}
}

// print prints the whole table and its conditions.
func (r *report) print(out io.Writer) {
	rows := make([]int, count)
	for what := range rows {
		rows[what] = what
	}
	r.printRows(out, rows)
	fmt.Fprintf(out, "\nMeasured on %s: medians of %d rounds on %s; in parentheses the factor to %s. CPU is a share of "+
		"one core, over "+
		"%s; memory is what the kernel cannot take back (private dirty memory and swap).\n",
		time.Now().UTC().Format(time.DateOnly), r.rounds, machine(), r.programs[0].name, r.idle)
	for _, p := range r.programs {
		m := r.all[p.name][0]
		fmt.Fprintf(out, "%s, with %d × %s.\n", p.version, m.monitors, m.monitorName)
	}
}

// cell returns a median with its unit, and its ratio to the first program unless it is the first.
func (r *report) cell(what int, name string, first bool) string {
	var values, ratios []float64
	for round, m := range r.all[name] {
		if !m.measured[what] {
			continue
		}
		values = append(values, m.values[what])
		if base := r.all[r.programs[0].name][round].values[what]; base > 0 {
			ratios = append(ratios, m.values[what]/base)
		}
	}
	value := median(values)
	switch {
	case len(values) == 0:
		return "not measured"
	case value == none:
		return "none"
	case first || len(ratios) == 0:
		return number(value) + " " + units[what]
	}
	return fmt.Sprintf("%s %s (× %s)", number(value), units[what], number(median(ratios)))
}

// number formats a value with two to three digits.
func number(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// machine describes the host.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores (%s), kernel %s", runtime.NumCPU(), processor(), strings.TrimSpace(string(kernel)))
}

// processor returns the name of the first processor.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// median returns 0 without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
