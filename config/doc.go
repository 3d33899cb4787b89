// Package config holds the settings of podstead run.
//
// It owns the flags, their defaults and validation, and the precedence of a setting: flag,
// then KubeletConfiguration file, then default.
//
// It reads the command line and that one file. It never starts anything.
package config
