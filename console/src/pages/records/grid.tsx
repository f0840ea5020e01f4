import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { type Cell, GridRow, Header, rowHeight, toggled, WaitingRow } from './grid-row.tsx'
import type { LongList } from './long-list.ts'
import type { Field, Row } from './model.ts'

export interface GridProps {
  label: string
  columns: readonly Field[]
  list: LongList<Row>
  /** The total number of rows; null if it is unknown. */
  total: number | null
  sort: string | undefined
  /** The fields that the grid can be sorted by. */
  sorts: readonly string[]
  onSort: (sort: string | undefined) => void
  selected: ReadonlySet<string | number>
  onSelect: (ids: ReadonlySet<string | number>) => void
  onOpen: (row: Row) => void
}

const selectWidth = '2.75rem'
const columnRem = 8

/**
 * A table of any number of rows. Only the visible rows are in the DOM, and further pages are loaded as the user
 * scrolls. Arrow keys move between cells, Enter opens a row, and Space selects it.
 */
export function Grid(props: GridProps) {
  const { columns, list } = props
  const box = useRef<HTMLDivElement>(null)
  const [active, setActive] = useState<Cell>({ row: 0, column: 1 })
  const virtual = useVirtualizer({
    count: list.count,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    // The sticky header covers the height of one row.
    scrollPaddingEnd: rowHeight,
  })
  const shown = virtual.getVirtualItems()
  const [first, last] = [shown[0]?.index ?? 0, shown.at(-1)?.index ?? 0]
  const { show, path } = list
  // biome-ignore lint/correctness/useExhaustiveDependencies: a page that is read can show the place of the next one
  useEffect(() => show(first, last), [show, first, last, list.count])
  useEffect(() => {
    if (path !== '') box.current?.scrollTo(0, 0)
  }, [path])
  const focus = useFocusOnceShown(box)
  const move = (row: number, column: number) => {
    const next = {
      row: Math.max(0, Math.min(list.count - 1, row)),
      column: Math.max(0, Math.min(columns.length, column)),
    }
    setActive(next)
    virtual.scrollToIndex(next.row)
    focus(next)
  }
  const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 2)
  const widths = columns.map(({ name }) => (name === 'id' ? '6rem' : `minmax(${columnRem}rem, 1fr)`))
  const template = `${selectWidth} ${widths.join(' ')}`
  const minWidth = `calc(${selectWidth} + ${columns.length * columnRem}rem)`
  // Tab must reach a cell even if the active cell is not in the DOM.
  const tabRow = active.row >= first && active.row <= last ? active.row : first
  return (
    <div className="record-grid" ref={box} aria-busy={list.isLoading}>
      <table
        {...{ role: 'grid', 'aria-label': props.label, 'aria-multiselectable': true, style: { minWidth } }}
        {...{ 'aria-rowcount': props.total === null ? -1 : props.total + 1, 'aria-colcount': columns.length + 1 }}
        onKeyDown={(event) => keyed(event, props, active, move, page)}
      >
        <thead {...{ role: 'rowgroup' }}>
          <Header {...props} template={template} />
        </thead>
        <tbody {...{ role: 'rowgroup' }} style={{ height: virtual.getTotalSize() }}>
          {shown.map(({ index, start }) => {
            const row = list.rowAt(index)
            const place = { index, template, top: start }
            const tabColumn = index === tabRow ? active.column : null
            if (row === undefined) return <WaitingRow key={index} {...place} />
            return <GridRow key={index} {...{ ...props, ...place, row, tabColumn, onActive: setActive }} />
          })}
        </tbody>
      </table>
    </div>
  )
}

/** Returns a function that focuses a cell as soon as the cell is in the DOM. */
function useFocusOnceShown(box: { readonly current: HTMLElement | null }): (cell: Cell) => void {
  const wanted = useRef<Cell | null>(null)
  useEffect(() => {
    if (wanted.current === null) return
    const { row, column } = wanted.current
    const cell = box.current?.querySelector<HTMLElement>(`[data-cell="${row}:${column}"]`)
    if (!cell) return
    wanted.current = null
    cell.focus()
  })
  return (cell) => {
    wanted.current = cell
  }
}

function keyed(
  event: KeyboardEvent,
  { list, columns, selected, onSelect, onOpen }: GridProps,
  { row, column }: Cell,
  move: (row: number, column: number) => void,
  page: number,
): void {
  if (!(event.target instanceof HTMLElement) || event.target.dataset.cell === undefined) return
  const current = list.rowAt(row)
  const moves: Record<string, () => void> = {
    ArrowDown: () => move(row + 1, column),
    ArrowUp: () => move(row - 1, column),
    ArrowRight: () => move(row, column + 1),
    ArrowLeft: () => move(row, column - 1),
    PageDown: () => move(row + page, column),
    PageUp: () => move(row - page, column),
    Home: () => (event.ctrlKey ? move(0, column) : move(row, 0)),
    End: () => (event.ctrlKey ? move(list.count - 1, column) : move(row, columns.length)),
    Enter: () => current && onOpen(current),
    ' ': () => current && onSelect(toggled(selected, current.id)),
  }
  const run = moves[event.key]
  if (run === undefined || event.altKey || event.metaKey) return
  event.preventDefault()
  run()
}
