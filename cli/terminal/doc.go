// Package terminal lays out text for people.
//
// It owns tables that fit the width of a terminal, reports of keys and values, colors,
// progress lines, and the raw mode of a terminal.
//
// It reads the width of the terminal, NO_COLOR and TERM. It never lets a control
// character of a container or a manifest reach the terminal.
package terminal
