import { useEffect, useRef, useState } from 'react'

const typingMs = 300

/**
 * Returns the text of a search field and its setter. Calls `onChange` with the trimmed text when the user pauses
 * typing. If `text` changes for another reason, for example because a filter was removed, the field shows the new text.
 */
export function useDelayedText(text: string, onChange: (text: string) => void): [string, (typed: string) => void] {
  const [typed, setTyped] = useState(text)
  const [sent, setSent] = useState(text)
  // Texts that were passed to `onChange` but are not in `text` yet, because the user can keep typing during a
  // navigation.
  const pending = useRef<string[]>([])
  const change = useRef(onChange)
  change.current = onChange
  useEffect(() => {
    const at = pending.current.indexOf(text)
    pending.current = at === -1 ? [] : pending.current.slice(at + 1)
    if (at !== -1) return
    setSent(text)
    setTyped(text)
  }, [text])
  const trimmed = typed.trim()
  useEffect(() => {
    if (trimmed === sent) return
    const { pathname } = location
    const timer = setTimeout(() => {
      // The user has left the page in the meantime. Calling `onChange` would navigate back to it.
      if (location.pathname !== pathname) return
      pending.current.push(trimmed)
      setSent(trimmed)
      change.current(trimmed)
    }, typingMs)
    return () => clearTimeout(timer)
  }, [trimmed, sent])
  return [typed, setTyped]
}
