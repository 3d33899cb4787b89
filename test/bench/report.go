package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/podstead/podstead/test/testbed"
)

// row is one measurement.
type row struct {
	Runtime string `json:"runtime"` // empty if the measurement needs none
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	// Floor is the median of bare CRI calls, 0 where there is nothing to compare.
	Floor float64 `json:"floor,omitempty"`
	// Value is the daemon's median.
	Value float64 `json:"value"`
	// Ratio is Value divided by Floor, 0 without a floor.
	Ratio float64 `json:"ratio,omitempty"`
	// Target is the text of the bound, empty if there is none. Met reports whether the value
	// is within the bound.
	Target string `json:"target,omitempty"`
	Met    bool   `json:"met"`
	// Rounds has all values of which Value is the median.
	Rounds      []float64 `json:"rounds,omitempty"`
	FloorRounds []float64 `json:"floorRounds,omitempty"`
}

// report is the result of one run.
type report struct {
	Host struct {
		Cores  int    `json:"cores"`
		Kernel string `json:"kernel"`
	} `json:"host"`
	Rows []row `json:"rows"`
}

func newReport() *report {
	r := new(report)
	r.Host.Cores = runtime.NumCPU()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	r.Host.Kernel = strings.TrimSpace(string(kernel))
	return r
}

// bound is a target: a row meets it if its value is at most the limit.
type bound struct {
	words string
	limit func(row) float64
}

func atMost(limit float64, words string) bound {
	return bound{words, func(row) float64 { return limit }}
}

func timesFloor(factor float64) bound {
	return bound{fmt.Sprintf("≤ %.1f × floor", factor), func(r row) float64 { return factor * r.Floor }}
}

func floorPlus(extra float64) bound {
	return bound{fmt.Sprintf("≤ floor + %.1f s", extra), func(r row) float64 { return r.Floor + extra }}
}

// add appends the medians of the rounds (floor may be nil) and checks them against the bound,
// whose text is empty if there is none.
func (r *report) add(w row, value, floor []float64, b bound) {
	w.Rounds, w.FloorRounds = value, floor
	w.Value, w.Floor = median(value), median(floor)
	if w.Floor > 0 {
		w.Ratio = w.Value / w.Floor
	}
	w.Target, w.Met = b.words, true
	if b.limit != nil {
		w.Met = w.Value <= b.limit(w)
	}
	r.Rows = append(r.Rows, w)
	progress("%s %s: %.3g %s", cmp.Or(w.Runtime, "podstead"), w.Name, w.Value, w.Unit)
}

// binary measures the binary of a release, which has no symbols.
func (r *report) binary() error {
	info, err := os.Stat(testbed.StrippedProgram())
	if err != nil {
		return err
	}
	r.add(row{Name: "release binary size", Unit: "MB"}, []float64{megabytes(info.Size())}, nil, atMost(30, "≤ 30 MB"))
	return nil
}

func (r *report) missed() bool {
	return slices.ContainsFunc(r.Rows, func(w row) bool { return !w.Met })
}

func (r *report) table(out io.Writer) {
	fmt.Fprintf(out, "\n%d cores, kernel %s\n\n", r.Host.Cores, r.Host.Kernel)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUNTIME\tMEASUREMENT\tFLOOR\tPODSTEAD\tRATIO\tTARGET\t")
	for _, m := range r.Rows {
		floor, ratio, verdict := "", "", ""
		if m.Floor > 0 {
			floor, ratio = fmt.Sprintf("%.3g %s", m.Floor, m.Unit), fmt.Sprintf("%.2f", m.Ratio)
		}
		if m.Target != "" {
			verdict = m.Target + ": met"
			if !m.Met {
				verdict = m.Target + ": MISSED"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.3g %s\t%s\t%s\t\n", m.Runtime, m.Name, floor, m.Value, m.Unit, ratio, verdict)
	}
	w.Flush()
}

func (r *report) writeJSON(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
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

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
