import { useEffect, useRef, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { useDelayedText } from '../../ui/delayed-text.ts'
import { CheckField } from '../../ui/fields.tsx'
import { FilterBuilder } from './filters.tsx'
import type { Field, Resource } from './model.ts'
import type { TableSearch } from './route.ts'

interface ToolbarProps {
  resource: Resource
  search: TableSearch
  columns: readonly Field[]
  onChange: (changes: Partial<TableSearch>) => void
}

/** The controls above a table: the search field, the filters and the column picker. */
export function Toolbar({ resource, search, columns, onChange }: ToolbarProps) {
  const [isChoosing, setChoosing] = useState(false)
  const listed = resource.fields.filter(({ isListed }) => isListed)
  const shown = columns.map(({ name }) => name)
  return (
    <div className="stack tight">
      <div className="row">
        {resource.hasSearch && <SearchBox text={search.q ?? ''} onChange={(q) => onChange({ q })} />}
        <FilterBuilder
          resource={resource}
          filters={search.filters ?? []}
          onChange={(filters) => onChange({ filters: filters.length > 0 ? filters : undefined })}
        />
        <Button isCompact aria-expanded={isChoosing} onPress={() => setChoosing(!isChoosing)}>
          Columns
        </Button>
      </div>
      {isChoosing && (
        <fieldset className="card row">
          <legend className="visually-hidden">Columns</legend>
          {listed.map(({ name, label }) => (
            <CheckField
              key={name}
              label={label}
              isSelected={shown.includes(name)}
              isDisabled={shown.length === 1 && shown.includes(name)}
              onChange={(isSelected) =>
                onChange({ columns: isSelected ? [...shown, name] : shown.filter((one) => one !== name) })
              }
            />
          ))}
        </fieldset>
      )}
    </div>
  )
}

/** The search field. It searches when the user pauses typing; the key `/` focuses it. */
function SearchBox({ text, onChange }: { text: string; onChange: (text: string | undefined) => void }) {
  const [typed, setTyped] = useDelayedText(text, (next) => onChange(next === '' ? undefined : next))
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      input.current?.focus()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <input
      ref={input}
      type="search"
      className="record-search"
      aria-label="Search"
      aria-keyshortcuts="/"
      placeholder="Search ( / )"
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
    />
  )
}
