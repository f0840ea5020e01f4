import { type Cell, cellMemory, cellsIn } from './cells.ts'
import { isMonthOver } from './quota-cell.ts'
import { isWindowOver } from './window-cell.ts'

/** Memory in which the threads of a process count calls. */
export type LimitMemory = Record<'windows' | 'quotas' | 'paces', SharedArrayBuffer>

export const limitMemory = (): LimitMemory => ({ windows: cellMemory(), quotas: cellMemory(), paces: cellMemory() })

/** The cells of an account: one for each limit and quota, and one for its pace. */
export interface AccountCells {
  /** Returns the cell of the limit with this slot. */
  window: (slot: number) => Cell
  quota: (name: 'requests' | 'reports') => Cell
  pace: Cell
}

export interface LimitCellsOptions {
  memory: LimitMemory
  now: () => number
  monotonic: () => number
}

/** Returns a function that finds the cells of an account by its key. */
export function limitCells({ memory, now, monotonic }: LimitCellsOptions): (account: string) => AccountCells {
  const windows = cellsIn(memory.windows, (value) => isWindowOver(value, now()))
  const quotas = cellsIn(memory.quotas, (value) => isMonthOver(value, now()))
  const paces = cellsIn(memory.paces, (value) => Number(value) / 1_000 < monotonic())
  return (account) => {
    const found = new Map<string, Cell>()
    const once = (name: string, find: (key: string) => Cell) => {
      const cell = found.get(name) ?? find(`${account} ${name}`)
      found.set(name, cell)
      return cell
    }
    return {
      window: (slot) => once(`window ${slot}`, windows),
      quota: (name) => once(name, quotas),
      pace: paces(account),
    }
  }
}
