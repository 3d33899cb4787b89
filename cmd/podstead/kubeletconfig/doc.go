// Package kubeletconfig reads a KubeletConfiguration file (v1beta1), so that a
// machine which ran a kubelet can keep its file.
//
// It owns the list of the fields that file may have and which of them are
// honoured. It reads one file; it never applies anything, and an absent field
// keeps podstead's default, not the kubelet's.
package kubeletconfig
