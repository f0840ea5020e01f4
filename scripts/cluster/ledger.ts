import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'

/** A write that the cluster has accepted, as shown by a successful response or by the stored row. */
export type Entry =
  | { kind: 'created'; id: number; name: string }
  | { kind: 'changed'; id: number; name: string; revision: number }
  | { kind: 'task'; id: string; format: string }

/** An append-only file with one JSON line for each accepted write. */
export interface Ledger {
  append: (entry: Entry) => void
  /** Reads the whole file. */
  read: () => Entry[]
  close: () => void
}

export function openLedger(file: string): Ledger {
  const descriptor = openSync(file, 'ax')
  return {
    append: (entry) => void writeSync(descriptor, `${JSON.stringify({ at: new Date().toISOString(), ...entry })}\n`),
    read: () => {
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
      return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Entry)
    },
    close: () => closeSync(descriptor),
  }
}
