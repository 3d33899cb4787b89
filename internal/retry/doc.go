// Package retry owns the wait between attempts: how long it is after failures in a row, and that it ends with a
// context. It reads the clock. It never makes an attempt, and knows no reason to stop.
package retry
