package maintenance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is a maintenance window, which recurs on days of the week in local time.
type Window struct {
	// days are those on which it begins, Sunday first.
	days [7]bool
	// start and end are minutes of the day. An end that is not after the start is on
	// the next day.
	start, end int
	text       string
}

const minutesPerDay = 24 * 60

// weekdays are the names of the days as in systemd's calendar events, Sunday first.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseWindow parses [DAYS ]HH:MM-HH:MM. DAYS is a list of days and ranges of days, such as
// Sat,Sun or Mon..Fri; without it the window recurs daily. The days are those on which the
// window begins; one that ends at or before its start ends on the next day.
func ParseWindow(text string) (Window, error) {
	w := Window{text: text}
	bad := func(what string) error {
		return fmt.Errorf("%q is not a valid maintenance window: %s; use [DAYS ]HH:MM-HH:MM in local time, such as "+
			"02:00-05:00 or Sat,Sun 22:00-04:00", text, what)
	}
	days, times := "", strings.TrimSpace(text)
	if i := strings.LastIndexByte(times, ' '); i >= 0 {
		days, times = strings.TrimSpace(times[:i]), times[i+1:]
	}
	if days == "" {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	for item := range strings.SplitSeq(days, ",") {
		if days == "" {
			break
		}
		first, last, isRange := strings.Cut(strings.ToLower(strings.TrimSpace(item)), "..")
		from := slices.Index(weekdays, first)
		to := from
		if isRange {
			to = slices.Index(weekdays, last)
		}
		if from < 0 || to < 0 {
			return Window{},
				bad(fmt.Sprintf("%q is not a day or a range of days, such as Sat or Mon..Fri", strings.TrimSpace(item)))
		}
		for day := from; ; day = (day + 1) % 7 {
			w.days[day] = true
			if day == to {
				break
			}
		}
	}
	start, end, ok := strings.Cut(times, "-")
	if !ok {
		return Window{}, bad("it has no end")
	}
	var err error
	if w.start, err = minuteOfDay(start); err == nil && w.start == minutesPerDay {
		err = fmt.Errorf("24:00 is only valid as the end")
	}
	if err == nil {
		w.end, err = minuteOfDay(end)
	}
	if err != nil {
		return Window{}, bad(err.Error())
	}
	if w.start == w.end {
		return Window{}, bad("it is empty, and 00:00-24:00 is a whole day")
	}
	return w, nil
}

// minuteOfDay parses HH:MM, up to 24:00.
func minuteOfDay(text string) (int, error) {
	hours, minutes, ok := strings.Cut(text, ":")
	h, errH := strconv.ParseUint(hours, 10, 8)
	m, errM := strconv.ParseUint(minutes, 10, 8)
	if !ok || errH != nil || errM != nil || len(hours) > 2 || len(minutes) != 2 || h > 24 || m > 59 || h == 24 && m > 0 {
		return 0, fmt.Errorf("%q is not a time of day, such as 02:00", text)
	}
	return int(h*60 + m), nil
}

// String returns the text from which the window was parsed.
func (w Window) String() string { return w.text }

// MarshalText returns the same.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.text), nil }

// on returns the occurrence that begins on a day, false if none does.
//
// A time that the change to daylight saving time skips is the moment of that change; of a
// time that occurs twice it is the first. A window that is skipped as a whole has its
// length after the change, so that a weekly one is not lost for a week.
func (w Window) on(year int, month time.Month, day int, loc *time.Location) (start, end time.Time, ok bool) {
	if !w.days[time.Date(year, month, day, 12, 0, 0, 0, time.UTC).Weekday()] {
		return start, end, false
	}
	length := w.end - w.start
	if length <= 0 {
		length += minutesPerDay
	}
	start = wallTime(year, month, day, w.start, loc)
	if end = wallTime(year, month, day, w.start+length, loc); !end.After(start) {
		end = start.Add(time.Duration(length) * time.Minute)
	}
	return start, end, true
}

// wallTime returns the first moment at which clocks show a minute of a day, or would show
// it if no hour were skipped. Minutes beyond the day are those of the next day.
func wallTime(year int, month time.Month, day, minute int, loc *time.Location) time.Time {
	shown := time.Date(year, month, day, 0, minute, 0, 0, time.UTC)
	around := [2]time.Time{shown.Add(-24 * time.Hour).In(loc), shown.Add(24 * time.Hour).In(loc)}
	var first time.Time
	for _, near := range around {
		_, offset := near.Zone()
		t := shown.Add(-time.Duration(offset) * time.Second).In(loc)
		if _, actual := t.Zone(); actual == offset && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !first.IsZero() {
		return first
	}
	// Neither offset is in effect at that time: it is skipped. With the offset of before it is
	// a time after the change.
	_, offset := around[0].Zone()
	change, _ := shown.Add(-time.Duration(offset) * time.Second).In(loc).ZoneBounds()
	return change
}

// maxSearch is how many days ahead the next occurrence of a window is: at most a week, and
// a day for one that began yesterday.
const maxSearch = 8

// Next returns the occurrence of one of the windows that contains t, or else the first one
// after it. There must be at least one window.
func Next(windows []Window, t time.Time, loc *time.Location) (start, end time.Time) {
	t = t.In(loc)
	for offset := -1; offset <= maxSearch; offset++ {
		var found bool
		for _, w := range windows {
			s, e, ok := w.on(t.Year(), t.Month(), t.Day()+offset, loc)
			if ok && e.After(t) && (!found || s.Before(start)) {
				start, end, found = s, e, true
			}
		}
		if found {
			return start, end
		}
	}
	return t, t // not reached: each window recurs within a week
}
