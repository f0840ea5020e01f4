import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/fields.tsx'
import { requestIdIn } from './finder.ts'

/** The ids that the service accepts in X-Request-Id. */
const known = /^[A-Za-z0-9._-]{8,64}$/

/** A search field for a request id, or for the request URN in an error response. */
export function FindRequest() {
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const [isWrong, setWrong] = useState(false)
  const find = (event: FormEvent) => {
    event.preventDefault()
    const trimmed = text.trim()
    const requestId = requestIdIn(trimmed) ?? (known.test(trimmed) ? trimmed : null)
    if (requestId === null) setWrong(true)
    else void navigate({ to: '/requests/$requestId', params: { requestId } })
  }
  return (
    <search>
      <form className="find" onSubmit={find}>
        <TextField
          label="Find a request"
          isLabelHidden
          value={text}
          placeholder="Find a request: its id, or urn:request:…"
          error={isWrong ? 'A request id has 8 to 64 letters, digits, dots, hyphens or underscores.' : undefined}
          onChange={(value) => {
            setText(value)
            setWrong(false)
          }}
        />
        <Button type="submit">Find</Button>
      </form>
    </search>
  )
}
