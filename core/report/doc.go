// Package report turns plans and verdicts into the formats that people and
// programs read: JSON and YAML with the fixed names of the plan formats, and
// tables.
//
// What comes in are a world, a plan made from it and how long that took; what goes
// out are values whose fields are the formats, and bytes. Money is rounded to a
// millionth of a dollar per hour here and nowhere before; every list is present,
// if empty, and in a fixed order. Sentences about reasons are made here where the
// reason brings none of its own.
//
// The package is pure: it writes to the writer it is given and knows no clock, no
// file and no terminal.
package report
