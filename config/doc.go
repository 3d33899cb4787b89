// Package config holds the settings of podstead run as a table with one row each.
//
// It owns the rows: the flag of a setting, its field in a KubeletConfiguration or in a
// PodsteadConfiguration, its help, default, value and check. From the rows follow the flags, the
// reading of both documents, the positions of errors and suggestions in them, /configz, the schema
// and the reference. It owns the precedence of a setting: flag, then drop-in files, then the file,
// then the default. kubelet_flags.txt and kubelet_fields.txt are what a kubelet has in addition.
//
// It reads the command line, the configuration files and, to validate settings, the host. It never
// starts anything, and acts on no setting.
package config
