// Package noderesourcestest checks what the compiler does not check of node resources.
//
// It owns the rule that a method with the name of an optional interface has its signature. It reads the methods of a
// type. It is never a part of the program: reflection on methods by name keeps every method of every type in a binary.
package noderesourcestest
