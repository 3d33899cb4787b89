package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// maxProfile is the maximum duration of one profile.
const maxProfile = 5 * time.Minute

// profiles serves /debug/pprof/ as net/http/pprof does, for go tool pprof. Importing that
// package would link text/template, which keeps every method of every type in the
// binary.
func profiles(enabled bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := strings.TrimPrefix(r.URL.Path, "/debug/pprof/")
		switch {
		case !enabled:
			http.Error(w, "profiling is disabled; enable it with --profiling", http.StatusMethodNotAllowed)
		case name == "":
			listProfiles(w)
		case name == "cmdline":
			_, _ = io.WriteString(w, strings.Join(os.Args, "\x00"))
		case name == "symbol":
			// The binary contains its symbols.
			_, _ = io.WriteString(w, "num_symbols: 0\n")
		case name == "profile":
			takeProfile(w, r, 30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile)
		case name == "trace":
			takeProfile(w, r, time.Second, trace.Start, trace.Stop)
		default:
			writeProfile(w, r, name)
		}
	}
}

func listProfiles(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range pprof.Profiles() {
		_, _ = fmt.Fprintf(w, "%d\t%s\n", p.Count(), p.Name())
	}
	_, _ = io.WriteString(w, "\tprofile\n\ttrace\n")
}

// takeProfile records for ?seconds.
func takeProfile(w http.ResponseWriter, r *http.Request, duration time.Duration, start func(io.Writer) error,
	stop func()) {
	if text := r.URL.Query().Get("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		duration = time.Duration(seconds * float64(time.Second))
		if err != nil || !(seconds > 0) || seconds > maxProfile.Seconds() {
			http.Error(w, fmt.Sprintf("seconds=%q: must be a number up to %.0f", text, maxProfile.Seconds()),
				http.StatusBadRequest)
			return
		}
	}
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(duration + time.Minute)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another one is in progress
		return
	}
	defer stop()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func writeProfile(w http.ResponseWriter, r *http.Request, name string) {
	p := pprof.Lookup(name)
	if p == nil {
		http.Error(w, fmt.Sprintf("unknown profile %q; /debug/pprof/ lists them", name), http.StatusNotFound)
		return
	}
	if name == "heap" && r.URL.Query().Get("gc") == "1" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.URL.Query().Get("debug")) // 0, the default, is the binary format
	w.Header().Set("Content-Type", "application/octet-stream")
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = p.WriteTo(w, debug) // a client that has disconnected needs no response
}
