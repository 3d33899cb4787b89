// Package kubeletconfig reads a KubeletConfiguration file (v1beta1), so that a host that
// ran a kubelet can keep its file.
//
// It owns the list of the fields of that file, and which of them are supported.
//
// It reads one file. It never applies anything, and a field that is not set keeps
// podstead's default, not the kubelet's.
package kubeletconfig
