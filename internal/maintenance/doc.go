// Package maintenance computes maintenance windows: times of the week at which a node may be
// changed.
//
// It owns their text form and their arithmetic in local time, over midnight and over the
// changes to and from daylight saving time. It reads nothing but the time zone that it is
// given, and never waits.
package maintenance
