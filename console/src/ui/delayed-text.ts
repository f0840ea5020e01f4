import { useEffect, useRef, useState } from 'react'

const typingMs = 300

/**
 * Returns the text of a search field, and a function that sets it. `onChange` gets the text, without spaces at its ends, when
 * the person pauses. If `text` changes for another reason, such as a removed filter, the field shows the new one.
 */
export function useDelayedText(text: string, onChange: (text: string) => void): [string, (typed: string) => void] {
  const [typed, setTyped] = useState(text)
  const [seen, setSeen] = useState(text)
  const [sent, setSent] = useState(text)
  if (text !== seen) {
    setSeen(text)
    if (text !== sent) {
      setSent(text)
      setTyped(text)
    }
  }
  const change = useRef(onChange)
  change.current = onChange
  const trimmed = typed.trim()
  useEffect(() => {
    if (trimmed === sent) return
    const timer = setTimeout(() => {
      setSent(trimmed)
      change.current(trimmed)
    }, typingMs)
    return () => clearTimeout(timer)
  }, [trimmed, sent])
  return [typed, setTyped]
}
