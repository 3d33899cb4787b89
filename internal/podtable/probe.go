package podtable

import "strings"

// probeAdvice reports what to do about failures of probes, by a part of their text.
var probeAdvice = []struct{ part, advice string }{
	{"connection refused", "nothing listens there: correct the probe's port, or let the program listen on all addresses"},
	{"server gave HTTP response to HTTPS client", "use scheme: HTTP"},
	{"malformed HTTP response", "the port does not speak HTTP: use scheme: HTTPS or a tcpSocket probe"},
	{"no such host", "correct the probe's host"},
	{"statuscode: 404", "correct the probe's path"},
	{"statuscode: 401", "use a path that needs no login, or httpHeaders"},
	{"statuscode: 403", "use a path that needs no login, or httpHeaders"},
	{"statuscode: 400", "correct the probe's path or scheme"},
	{"statuscode: 5", "podstead logs may show why"},
	{"not found in $PATH", "the image has no such program: correct the probe's command"},
	{"no such file or directory", "the image has no such program: correct the probe's command"},
	{"permission denied", "the program cannot be executed: correct the probe's command"},
	{"deadline exceeded", "raise timeoutSeconds, or make the check faster"},
	{"Client.Timeout", "raise timeoutSeconds, or make the check faster"},
	{"timed out", "raise timeoutSeconds, or make the check faster"},
	{"i/o timeout", "raise timeoutSeconds, or correct the probe's port"},
}

// ProbeFailure returns the text of an event about a failed probe, shortened, with what to do
// where that is known.
func ProbeFailure(text string) string {
	kind, rest, ok := strings.Cut(text, ": ")
	if ok {
		kind = strings.TrimSuffix(kind, " and resulted in unknown state")
		for _, layer := range layers {
			if short := rest[len(layer().FindString(rest)):]; short != "" {
				rest = short
			}
		}
		text = kind + ": " + noise().ReplaceAllString(rest, "")
	}
	for _, known := range probeAdvice {
		if strings.Contains(text, known.part) {
			return text + "; " + known.advice
		}
	}
	return text
}
